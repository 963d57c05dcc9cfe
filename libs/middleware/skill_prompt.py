"""What a model is told of its skills: how to use one, then one line for each.

Only names, descriptions and paths; the body of a SKILL.md is read by the model when a task needs it.
"""

from __future__ import annotations

from collections.abc import Sequence

from .skill_files import Skill
from .skill_rules import MAX_DESCRIPTION_CHARS, fold

__all__ = ["MIN_PROMPT_CHARS", "STEPS", "render_skills"]

MIN_PROMPT_CHARS = 2_000
MAX_UNAVAILABLE = 5
MAX_REASON_CHARS = 160

STEPS = """\
## Skills

A skill is a set of tested instructions and scripts for one kind of task. When a task matches one below:
1. Read its SKILL.md whole with `read_file` (`limit=1000`) before you begin.
2. Follow it. Run its scripts from the shell by the absolute paths it shows.
The files of a skill can be read and run, not changed.
"""


def render_skills(skills: Sequence[Skill], *, max_chars: int, steps: str = STEPS) -> str:
    """The section of a system prompt for `skills`, at most `max_chars` characters; "" for none.

    `steps` is its beginning, which says how a skill is used: agents differ in how they read a file.

    Where the whole does not fit, all descriptions are cut to one common length and the section says so.
    Where not even names and paths fit, the last skills are left out and counted.

    Raises:
        ValueError: `max_chars` below 2,000, which the fixed text alone could fill.
    """
    if max_chars < MIN_PROMPT_CHARS:
        raise ValueError(f"skills need at least {MIN_PROMPT_CHARS} characters of the prompt, not {max_chars}")
    usable = [_one_line(skill) for skill in skills if skill.problem is None]
    tail = _unavailable([skill for skill in skills if skill.problem is not None])
    if not usable:
        return f"## Skills\n{tail}" if tail else ""
    whole = _section(steps, usable, MAX_DESCRIPTION_CHARS, "", tail)
    return whole if len(whole) <= max_chars else _shortened(steps, usable, tail, max_chars)


def _shortened(steps: str, skills: list[Skill], tail: str, max_chars: int) -> str:
    low, high = 0, MAX_DESCRIPTION_CHARS
    while low < high:  # the greatest common length that fits
        middle = (low + high + 1) // 2
        if len(_section(steps, skills, middle, _cut_note(middle), tail)) <= max_chars:
            low = middle
        else:
            high = middle - 1
    section = _section(steps, skills, low, _cut_note(low), tail)
    if len(section) <= max_chars:
        return section
    fewest, most = 0, len(skills)
    while fewest < most:  # the most skills that fit without a description
        middle = (fewest + most + 1) // 2
        if len(_section(steps, skills[:middle], 0, _left_out_note(skills, middle), tail)) <= max_chars:
            fewest = middle
        else:
            most = middle - 1
    return _section(steps, skills[:fewest], 0, _left_out_note(skills, fewest), tail)


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
    description = skill.description
    if len(description) > chars:
        description = f"{description[: chars - 1].rstrip()}…" if chars else ""
    name = f"**{skill.name}**{' (from outside)' if skill.outside else ''}"
    return f"- {name}{': ' if description else ''}{description} (`{skill.path}`)\n"


def _one_line(skill: Skill) -> Skill:
    # A ready list need not come from `discover_skills`: nothing unfolded may reach a prompt.
    return Skill(fold(skill.name), fold(skill.description), fold(skill.path))


def _unavailable(skills: Sequence[Skill]) -> str:
    if not skills:
        return ""
    lines = ["\nSkills that cannot be used until a person mends them:\n"]
    for skill in skills[:MAX_UNAVAILABLE]:
        reason = fold(skill.problem or "")
        reason = reason if len(reason) <= MAX_REASON_CHARS else f"{reason[: MAX_REASON_CHARS - 1]}…"
        lines.append(f"- {fold(skill.name)}: {reason}\n")
    if len(skills) > MAX_UNAVAILABLE:
        lines.append(f"- and {len(skills) - MAX_UNAVAILABLE:,} more\n")
    return "".join(lines)
