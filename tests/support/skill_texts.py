"""Reads the programs and commands in the texts of a skill, and runs its scripts with wrong arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SKILLS = Path(__file__).parents[2] / "skills"

_RUN_ALL = """
import contextlib, io, json, os, runpy, sys
ends = []
for script, *arguments in json.loads({calls!r}):
    sys.argv, sys.path[0] = [script, *arguments], os.path.dirname(script)
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit as end:
            if isinstance(end.code, str):  # as Python itself does
                print(end.code, file=sys.stderr)
            ends.append((1 if isinstance(end.code, str) else end.code, said.getvalue()))
print(json.dumps(ends))
"""


def refusals(backend: Any, calls: Sequence[Sequence[str]]) -> list[str]:
    """Run scripts in one interpreter, as each start takes most of a second. Return what they print on stderr.

    Each script must end with exit code 1.

    Args:
        calls: path of a script, and its arguments.
    """
    backend.upload_files([("/workspace/refusals.py", _RUN_ALL.format(calls=json.dumps(calls)).encode())])
    response = backend.execute("cd /workspace && python refusals.py; rm refusals.py")
    ends: list[tuple[int, str]] = json.loads(response.output)
    assert [status for status, _ in ends] == [1] * len(calls), ends
    return [said for _, said in ends]


def blocks(skill: str, language: str) -> list[str]:
    """Return the code blocks of one language in SKILL.md and `docs/`."""
    folder = SKILLS / skill
    texts = [path.read_text("utf-8") for path in (folder / "SKILL.md", *sorted(folder.glob("docs/*.md")))]
    return [
        block
        for text in texts
        for block in re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    ]


def commands(skill: str) -> list[str]:
    """Return the lines of all bash blocks."""
    return [line for block in blocks(skill, "bash") for line in block.splitlines() if line]
