"""Check skills strictly: report every breach of a rule, with its place and a fix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from libs.middleware.skills.skill_reading import (
    SKILL_FILE,
    place_of,
    read_skill,
    signature,
    skill_files,
    skill_name,
)

__all__ = ["Problem", "validate_skills"]

_EXECUTABLE = 0o555
"""Mode bits of a command. All users may read and execute it, because the sandbox's user is not its owner."""


@dataclass(frozen=True)
class Problem:
    """One breach of a rule, with its place and a fix."""

    path: Path
    message: str
    fix: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}. {self.fix}"


def validate_skills(path: str | Path) -> list[Problem]:
    """Return every breach of the rules in `path`: a skill's folder or module, or a folder of skills.

    Stricter than loading: a folder without SKILL.md, a name that differs from the folder's name and an
    unknown field are problems too. Blocks on the disk.
    """
    path = Path(path).resolve()
    try:
        if path.suffix == ".py" and path.is_file():
            files = [path]
        elif signature(path / SKILL_FILE) is not None:
            files = [path / SKILL_FILE]
        else:
            files = skill_files(path)
    except OSError as error:
        return [Problem(path, f"cannot be read: {error.strerror}", "Name a skill or a folder of skills.")]
    problems: list[Problem] = []
    owners: dict[str, Path] = {}
    for file in files:
        if signature(file) is None:
            problems.append(
                Problem(file.parent, "has no SKILL.md", "Add one, spelt exactly so, or move it away.")
            )
            continue
        fields, findings = read_skill(file, root=place_of(file).parent)
        problems += [Problem(file, finding.message, finding.fix) for finding in findings]
        problems += _commands(file.parent / "runtime") if file.name == SKILL_FILE else []
        owner = owners.setdefault(skill_name(fields, file), file)
        if owner != file:
            problems.append(Problem(file, f"has the same name as {owner}", "Rename one of them."))
    return problems


def _commands(folder: Path) -> Iterator[Problem]:
    """Yield the commands in a `runtime/` folder that the sandbox could not run."""
    for file in sorted(folder.iterdir()) if folder.is_dir() else ():
        if not file.is_file():
            yield Problem(file, "is not a file", "Move it away: only commands may be in runtime/.")
        elif file.stat().st_mode & _EXECUTABLE != _EXECUTABLE:
            yield Problem(file, "is a command that cannot be executed", f"Run: chmod 755 {file}")
