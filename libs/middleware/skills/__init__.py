"""Skills: find them on disk, check them, and list them in the system prompt.

In: folders with SKILL.md files. Out: one line of the prompt for each skill, the folder of approved skills,
    and the problems of proposed skills.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from libs.middleware.skills.skill_files import Skill, SkillFolders, discover_skills
from libs.middleware.skills.skill_overlay import SkillOverlay
from libs.middleware.skills.skill_prompt import render_skills
from libs.middleware.skills.skill_proposals import MOST_PACKED, Proposal, problems_of, read_proposals
from libs.middleware.skills.skill_rules import fold
from libs.middleware.skills.skill_template import write_library, write_skill
from libs.middleware.skills.skill_validation import validate_skills

if TYPE_CHECKING:
    from libs.middleware.skills.skills_middleware import SkillsMiddleware

__all__ = [
    "MOST_PACKED",
    "Proposal",
    "Skill",
    "SkillFolders",
    "SkillOverlay",
    "SkillsMiddleware",
    "discover_skills",
    "fold",
    "problems_of",
    "read_proposals",
    "render_skills",
    "validate_skills",
    "write_library",
    "write_skill",
]


def __getattr__(name: str) -> object:
    """Import the middleware, and deepagents with it, at its first use (PEP 562): commands do without them."""
    if name != "SkillsMiddleware":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from libs.middleware.skills.skills_middleware import SkillsMiddleware

    return SkillsMiddleware
