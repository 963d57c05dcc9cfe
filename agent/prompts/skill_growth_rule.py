"""Tells models that they may propose skills."""

# ruff: noqa: E501 - prose, one paragraph a line

from __future__ import annotations

from agent.settings import Settings
from libs.sandbox import LEARNED_MOUNT

_GROWTH = """

## Skills you propose
When you have found out how a kind of task is done well, and it will come again, propose a skill before you answer: write /workspace/skills/<name>/SKILL.md, which begins with `---`, `name: <name>`, `description: <what it does, and when to use it>`, `---` and then gives the steps with whole commands, and beside it in scripts/ the programs it needs. Try them first. A person is asked at the end; once approved it is at {place}/<name>, so its commands name that path. To change a skill, copy its folder to /workspace/skills and change the copy. Text only; no secrets, no data of the user.\
"""


def growth(settings: Settings) -> str:
    """Return the section about proposed skills; "" where SKILLS_EVOLVE is off."""
    return _GROWTH.format(place=LEARNED_MOUNT) if settings.skills_evolve else ""
