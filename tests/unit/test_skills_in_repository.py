"""Every skill that ships keeps the rules strictly, and none is hidden from the agent."""

from __future__ import annotations

from pathlib import Path

from libs.middleware.skills import discover_skills, validate_skills

SKILLS = Path(__file__).parents[2] / "skills"


def test_every_shipped_skill_is_valid() -> None:
    assert [str(problem) for problem in validate_skills(SKILLS)] == []


def test_every_shipped_skill_is_found_without_a_warning() -> None:
    skills = discover_skills(SKILLS)
    assert "csv-analytics" in [skill.name for skill in skills]
    assert [(skill.name, skill.problem, skill.warnings) for skill in skills] == [
        (skill.name, None, ()) for skill in skills
    ]
