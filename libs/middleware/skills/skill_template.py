"""Write a new skill to start from. Its example works on the sample file `sales.csv` without changes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import yaml

from libs.middleware.skills.skill_modules import check_module
from libs.middleware.skills.skill_rules import Finding, check_fields, fold

__all__ = ["write_library", "write_skill"]

_BODY = """\
---
{front_matter}---

# {title}

Say here what to do, step by step, with whole commands that work as they are.

```bash
python /skills/{name}/scripts/run.py /data/sales.csv
```

Say what the answer holds, and what it leaves out.
"""

_SCRIPT = '''\
"""Count the lines of a text file. Replace this program by one of your skill."""

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

_MODULE = '''\
{docstring}

from __future__ import annotations

from pathlib import Path

__all__ = ["count_lines"]


def count_lines(path: str) -> int:
    """Return the number of lines of a text file. Replace it by the functions of your skill.

    Example:
        from skills.{name} import count_lines
        print(count_lines("/data/sales.csv"))

    Raises:
        OSError: the file cannot be read.
    """
    return len(Path(path).read_text(encoding="utf-8").splitlines())
'''


def write_skill(folder: Path, name: str, description: str = "") -> Path:
    """Create the skill `name` in `folder` and return the path of its SKILL.md.

    `description` is folded to one line. If it is empty, the skill cannot be used, and `validate_skills`
    refuses the skill, until a person writes the description.

    Raises:
        ValueError: name or description break a rule, or the skill exists already. Nothing is written.
        OSError: the folder cannot be written.
    """
    fields = {"name": name, "description": fold(description)}
    _refuse(check_fields(fields | _described(description), folder=name))
    skill = folder / name
    folder.mkdir(parents=True, exist_ok=True)
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


def write_library(folder: Path, name: str, description: str = "") -> Path:
    """Create the skill `<name>.py` in `folder`, which programs import, and return its path.

    `description`, ValueError and OSError as for `write_skill`.
    """
    file = folder / f"{name}.py"
    _refuse(check_module(_described(description), file.name))
    quoted = fold(description).replace("\\", "\\\\").replace('"', '\\"')
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with file.open("x", encoding="utf-8") as written:
            written.write(_MODULE.format(docstring=f'"""{quoted}"""', name=name))
    except FileExistsError as error:
        raise ValueError(f"{file} exists already. Choose another name.") from error
    return file


def _described(description: str) -> dict[str, object]:
    """Return the description as a field to check. It may be empty, because it can be written later."""
    return {"description": fold(description) or "to be written"}


def _refuse(findings: Iterable[Finding]) -> None:
    if found := [f"{finding.message}. {finding.fix}" for finding in findings]:
        raise ValueError(" ".join(found))
