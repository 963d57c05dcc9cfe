"""Skills that agents propose (SKILLS_EVOLVE).

In come the files of a proposed skill in the sandbox. A person decides. Out goes an approved skill to the
overlay folder.
"""

from __future__ import annotations

from agent.skills.skill_growth import Growth, Offer, build_growth, decisions_about
from agent.skills.skill_growth_middleware import SkillGrowth

__all__ = ["Growth", "Offer", "SkillGrowth", "build_growth", "decisions_about"]
