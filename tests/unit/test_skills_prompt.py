"""The section of the system prompt: one line a skill, within its bound, nothing for nothing."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.middleware.skill_prompt import render_skills
from libs.middleware.skills import Skill


def skill(name: str, description: str = "Does it.", problem: str | None = None) -> Skill:
    return Skill(name, description, f"/skills/{name}/SKILL.md", problem)


def lines_of(section: str) -> list[str]:
    return [line for line in section.splitlines() if line.startswith("- **")]


def test_the_whole_section() -> None:
    section = render_skills(
        [
            skill("csv-analytics", "Reads CSV files."),
            skill("broken", "", "description is missing"),
            skill("pdf", "Reads PDF files."),
        ],
        max_chars=16_000,
    )
    assert section == (
        "## Skills\n"
        "\n"
        "A skill is a set of tested instructions and scripts for one kind of task. "
        "When a task matches one below:\n"
        "1. Read its SKILL.md whole with `read_file` (`limit=1000`) before you begin.\n"
        "2. Follow it. Run its scripts from the shell by the absolute paths it shows.\n"
        "The files of a skill can be read and run, not changed.\n"
        "\n"
        "- **csv-analytics**: Reads CSV files. (`/skills/csv-analytics/SKILL.md`)\n"
        "- **pdf**: Reads PDF files. (`/skills/pdf/SKILL.md`)\n"
        "\n"
        "Skills that cannot be used until a person mends them:\n"
        "- broken: description is missing\n"
    )


def test_no_skills_no_section() -> None:
    assert render_skills([], max_chars=16_000) == ""


def test_only_unusable_skills_are_shown_without_the_steps() -> None:
    assert render_skills([skill("a", problem="why")], max_chars=16_000) == (
        "## Skills\n\nSkills that cannot be used until a person mends them:\n- a: why\n"
    )


def test_many_unusable_skills_are_counted_and_their_reasons_cut() -> None:
    section = render_skills([skill(f"s{n}", problem="w" * 500) for n in range(30)], max_chars=16_000)
    assert "- and 25 more\n" in section
    assert len(section) < 2_000


anything = st.text(max_size=2_000)


@given(st.lists(st.builds(Skill, anything, anything, anything, st.none() | anything), max_size=30))
def test_no_text_of_a_skill_leaves_its_line(skills: list[Skill]) -> None:
    plain = [skill("n", problem=None if one.problem is None else "why") for one in skills]
    section = render_skills(skills, max_chars=10**6)
    assert all(line.isprintable() for line in section.split("\n"))
    assert section.count("\n") == render_skills(plain, max_chars=10**6).count("\n")


@given(st.integers(1, 400), st.integers(0, 1024), st.integers(2_000, 20_000))
def test_the_section_never_exceeds_its_bound(count: int, chars: int, bound: int) -> None:
    section = render_skills([skill(f"skill-{n}", "d" * chars) for n in range(count)], max_chars=bound)
    assert len(section) <= bound
    shown = len(lines_of(section))
    missing = re.search(r"([\d,]+) more are not listed: `ls /skills`", section)
    assert shown + (int(missing[1]) if missing else 0) == count


def test_over_the_bound_all_descriptions_are_cut_to_one_length_as_long_as_fits() -> None:
    skills = [skill(f"skill-{n:02}", "d" * 1_000) for n in range(30)] + [skill("short", "Brief.")]
    section = render_skills(skills, max_chars=16_000)
    note = re.search(r"The descriptions are shortened to (\d+) characters each", section)
    assert note is not None
    lengths = {len(line.split(": ", 1)[1].split(" (`")[0]) for line in lines_of(section)[:-1]}
    assert lengths == {int(note[1])}
    assert "- **short**: Brief. (`/skills/short/SKILL.md`)\n" in section
    assert 16_000 - 31 <= len(section) <= 16_000


def test_at_the_bound_nothing_is_cut() -> None:
    skills = [skill(f"s{n}", "d" * 900) for n in range(10)]
    whole = render_skills(skills, max_chars=16_000)
    assert render_skills(skills, max_chars=len(whole)) == whole
    assert "shortened" in render_skills(skills, max_chars=len(whole) - 1)


def test_more_skills_than_fit_are_counted() -> None:
    section = render_skills([skill(f"skill-{n:04}") for n in range(5_000)], max_chars=16_000)
    shown = len(lines_of(section))
    assert f"{5_000 - shown:,} more are not listed: `ls /skills`." in section
    assert 15_900 < len(section) <= 16_000


def test_a_bound_that_cannot_be_kept_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 2000 characters"):
        render_skills([skill("a")], max_chars=1_999)
