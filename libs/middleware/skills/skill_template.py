"""Write a new skill to start from: a valid SKILL.md and a script with output for a model."""

from __future__ import annotations

from pathlib import Path

import yaml

from libs.middleware.skills.skill_rules import check_fields, fold

__all__ = ["write_skill"]

_BODY = """\
---
{front_matter}---

# {title}

Say here what to do, step by step, with whole commands that work as they are.

```bash
python /skills/{name}/scripts/run.py /data/input.txt
```

Say what the answer holds, and what it leaves out.
"""

_SCRIPT = '''\
"""Count the lines of a text file. Replace this by what the skill is for."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", help="a text file")
    arguments = parser.parse_args()
    try:
        lines = Path(arguments.file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        sys.exit(f"error: {error}")  # on stderr, with exit status 1
    print(json.dumps({"file": arguments.file, "lines": len(lines)}, ensure_ascii=False))


if __name__ == "__main__":
    main()
'''


def write_skill(folder: Path, name: str, description: str) -> Path:
    """Create the skill `name` in `folder` and return the path of its SKILL.md.

    The skill passes `validate_skills`. `description` is folded to one line.

    Raises:
        ValueError: name or description break a rule, or the skill exists already. Nothing is written.
        OSError: the folder cannot be written.
    """
    fields = {"name": name, "description": fold(description)}
    findings = [f"{finding.message}. {finding.fix}" for finding in check_fields(fields, folder=name)]
    if findings:
        raise ValueError(" ".join(findings))
    folder.mkdir(parents=True, exist_ok=True)
    skill = folder / name
    try:
        skill.mkdir()
    except FileExistsError as error:
        raise ValueError(f"{skill} exists already. Choose another name.") from error
    front_matter = yaml.safe_dump(fields, allow_unicode=True, sort_keys=False, width=10_000)
    text = _BODY.format(front_matter=front_matter, name=name, title=name.replace("-", " ").capitalize())
    (skill / "scripts").mkdir()
    (skill / "scripts" / "run.py").write_text(_SCRIPT, encoding="utf-8")
    file = skill / "SKILL.md"  # written last: a folder without SKILL.md is no skill
    file.write_text(text, encoding="utf-8")
    return file
