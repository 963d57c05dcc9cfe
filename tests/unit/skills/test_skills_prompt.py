"""The section of the system prompt: one line for each skill, and a limit on its length."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from libs.middleware.skills.skill_prompt import EXAMPLE, render_skills
from libs.middleware.skills.skills_middleware import Skill


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
        "1. Before you begin, read the whole file of the skill with `read_file` (`limit=1000`). Its path is "
        "at the end of the skill's line.\n"
        "2. Follow it. Run its scripts from the shell by the absolute paths it shows.\n"
        "3. Read everything that a script prints. Say in your answer which data the script left out or could "
        "not read.\n"
        "The files of a skill can be read and run, not changed.\n"
        f"{EXAMPLE}"
        "\n"
        "- **csv-analytics**: Reads CSV files. (`/skills/csv-analytics/SKILL.md`)\n"
        "- **pdf**: Reads PDF files. (`/skills/pdf/SKILL.md`)\n"
        "\n"
        "Skills that cannot be used until a person mends them:\n"
        "- broken: description is missing\n"
    )


anything = st.text(max_size=2_000)


@given(st.lists(st.builds(Skill, anything, anything, anything, st.none() | anything), max_size=30))
def test_no_text_of_a_skill_leaves_its_line(skills: list[Skill]) -> None:
    plain = [skill("n", problem=None if one.problem is None else "why") for one in skills]
    section = render_skills(skills, max_chars=10**6)
    assert all(line.isprintable() for line in section.split("\n"))
    assert section.count("\n") == render_skills(plain, max_chars=10**6).count("\n")


@given(st.integers(1, 400), st.integers(0, 1024), st.integers(2_000, 20_000))
def test_section_stays_within_its_limit(count: int, chars: int, bound: int) -> None:
    section = render_skills([skill(f"skill-{n}", "d" * chars) for n in range(count)], max_chars=bound)
    assert len(section) <= bound
    shown = len(lines_of(section))
    missing = re.search(r"([\d,]+) more are not listed: `ls /skills`", section)
    assert shown + (int(missing[1]) if missing else 0) == count


def test_long_descriptions_are_cut_to_one_length() -> None:
    fits = [skill(f"s{n}", "d" * 900) for n in range(10)]
    whole = render_skills(fits, max_chars=16_000)
    assert render_skills(fits, max_chars=len(whole)) == whole
    skills = [skill(f"skill-{n:02}", "d" * 1_000) for n in range(30)] + [skill("short", "Brief.")]
    section = render_skills(skills, max_chars=16_000)
    note = re.search(r"The descriptions are shortened to (\d+) characters each", section)
    assert note is not None
    lengths = {len(line.split(": ", 1)[1].split(" (`")[0]) for line in lines_of(section)[:-1]}
    assert lengths == {int(note[1])}
    assert "- **short**: Brief. (`/skills/short/SKILL.md`)\n" in section
    assert 16_000 - 31 <= len(section) <= 16_000


def test_example_is_left_out_before_descriptions_are_cut() -> None:
    skills = [skill(f"skill-{n:02}", "d" * 900) for n in range(10)]
    whole = render_skills(skills, max_chars=16_000)
    shorter = render_skills(skills, max_chars=len(whole) - 1)
    assert whole.replace(EXAMPLE, "") == shorter
    assert EXAMPLE in whole
    assert lines_of(shorter) == lines_of(whole)
