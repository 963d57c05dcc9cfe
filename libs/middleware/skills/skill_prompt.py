"""The section of the system prompt about skills: how to use a skill, an example, then one line for each.

A line has name, description and path. The model reads the file when a task needs the skill.
"""

# ruff: noqa: E501 - prose, one paragraph a line

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

from libs.middleware.skills.skill_files import Skill
from libs.middleware.skills.skill_rules import MAX_DESCRIPTION_CHARS, cut, fold

__all__ = ["EXAMPLE", "MIN_PROMPT_CHARS", "STEPS", "render_skills"]

MIN_PROMPT_CHARS = 2_000
MAX_UNAVAILABLE = 5
MAX_REASON_CHARS = 160

STEPS = """\
## Skills

A skill is a set of tested instructions and scripts for one kind of task. When a task matches one below:
1. Before you begin, read the whole file of the skill with `read_file` (`limit=1000`). Its path is at the end of the skill's line.
2. Follow it. Run its scripts from the shell by the absolute paths it shows.
3. Read everything that a script prints. Say in your answer which data the script left out or could not read.
The files of a skill can be read and run, not changed.
"""

EXAMPLE = """
Example: the task is the total of the invoices in /data/march.pdf, and a skill for PDF files is listed.
1. You read its SKILL.md with `read_file`. It shows a command that prints the tables of a file.
2. You run that command with `execute`, with /data/march.pdf in place of the sample file. It prints two tables and a note: one page has no text.
3. You add the amounts up with a script of your own, and answer with the total. You say that one page could not be read.
Prefer a skill's script to a program of your own. When it fails, read its error and its `--help`. A task may need several skills: one to read the data, another to make the report.
"""


def render_skills(
    skills: Sequence[Skill], *, max_chars: int, steps: str = STEPS, example: str = EXAMPLE
) -> str:
    """Return the section for `skills`, at most `max_chars` characters, or "" without skills.

    `steps` and `example` explain how to use a skill; they differ between agents, which read files in
    different ways. If the section is too long, the example is left out. If the section is still too long, all
    descriptions are cut to one common length. If names and paths alone are too long, the last skills are left
    out and counted.

    Raises:
        ValueError: `max_chars` is below 2,000.
    """
    if max_chars < MIN_PROMPT_CHARS:
        raise ValueError(f"skills need at least {MIN_PROMPT_CHARS} characters of the prompt, not {max_chars}")
    usable = [_one_line(skill) for skill in skills if skill.problem is None]
    tail = _unavailable([skill for skill in skills if skill.problem is not None])
    if not usable:
        return f"## Skills\n{tail}" if tail else ""
    for explained in (steps + example, steps):
        whole = _section(explained, usable, MAX_DESCRIPTION_CHARS, "", tail)
        if len(whole) <= max_chars:
            return whole
    return _shortened(steps, usable, tail, max_chars)


def _shortened(steps: str, skills: list[Skill], tail: str, max_chars: int) -> str:
    def with_descriptions(chars: int) -> str:
        return _section(steps, skills, chars, _cut_note(chars), tail)

    def with_skills(count: int) -> str:
        return _section(steps, skills[:count], 0, _left_out_note(skills, count), tail)

    def most(texts: Callable[[int], str], limit: int) -> int:
        """Return the greatest number whose text fits, or -1."""
        return bisect_right(range(limit + 1), max_chars, key=lambda number: len(texts(number))) - 1

    chars = most(with_descriptions, MAX_DESCRIPTION_CHARS)
    return with_descriptions(chars) if chars >= 0 else with_skills(max(0, most(with_skills, len(skills))))


def _cut_note(chars: int) -> str:
    return f"The descriptions are shortened to {chars} characters each; SKILL.md has the whole of it.\n"


def _left_out_note(skills: list[Skill], shown: int) -> str:
    folders = sorted({skill.path.rsplit("/", 2)[0] for skill in skills[shown:]})
    return (
        "There are too many skills for their descriptions, which SKILL.md has. "
        f"{len(skills) - shown:,} more are not listed: `ls {folders[0] if folders else ''}`.\n"
    )


def _section(steps: str, skills: Sequence[Skill], chars: int, note: str, tail: str) -> str:
    return "".join([steps, note, "\n", *(_line(skill, chars) for skill in skills), tail])


def _line(skill: Skill, chars: int) -> str:
    description = cut(skill.description, chars)
    name = f"**{skill.name}**{' (from outside)' if skill.outside else ''}"
    return f"- {name}{': ' if description else ''}{description} (`{skill.path}`)\n"


def _one_line(skill: Skill) -> Skill:
    # A list from a caller may not be folded yet.
    return Skill(fold(skill.name), fold(skill.description), fold(skill.path))


def _unavailable(skills: Sequence[Skill]) -> str:
    if not skills:
        return ""
    lines = ["\nSkills that cannot be used until a person mends them:\n"]
    for skill in skills[:MAX_UNAVAILABLE]:
        lines.append(f"- {fold(skill.name)}: {cut(fold(skill.problem or ''), MAX_REASON_CHARS)}\n")
    if len(skills) > MAX_UNAVAILABLE:
        lines.append(f"- and {len(skills) - MAX_UNAVAILABLE:,} more\n")
    return "".join(lines)
