"""Reads the programs and commands in SKILL.md and the docs of a skill."""

from __future__ import annotations

import re
from pathlib import Path

SKILLS = Path(__file__).parents[2] / "skills"


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
