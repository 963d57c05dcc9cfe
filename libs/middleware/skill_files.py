"""Skills on disk: which folders hold one, what each says of itself, and which have changed since.

Loading is lenient and validating strict, over the same reading of the same file. Loading drops only what
an agent could not use and says why; `validate_skills` reports every breach.
"""

from __future__ import annotations

import logging
import os
import stat
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from .skill_mounts import LEARNED_MOUNT, OWN_MOUNT
from .skill_rules import (
    MAX_DESCRIPTION_CHARS,
    MAX_NAME_CHARS,
    Finding,
    UnreadableSkill,
    check_fields,
    fold,
    parse_front_matter,
)

__all__ = ["MAX_SKILL_BYTES", "Problem", "Skill", "SkillFolders", "discover_skills", "validate_skills"]

logger = logging.getLogger(__name__)

MAX_SKILL_BYTES = 1_000_000
SKILL_FILE = "SKILL.md"


@dataclass(frozen=True)
class Skill:
    """One skill as an agent is told of it.

    `name` (at most 64 characters) and `description` (at most 1,024) are single lines; `path` is that of
    SKILL.md inside the sandbox. `problem` is None, or says in one line why the skill cannot be used.
    `warnings` are breaches that loading forgave.
    """

    name: str
    description: str
    path: str
    problem: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def outside(self) -> bool:
        """Whether nobody here has made or approved it."""
        return not self.path.startswith((f"{OWN_MOUNT}/", f"{LEARNED_MOUNT}/"))


@dataclass(frozen=True)
class Problem:
    """One breach that strict validation found: where, what, and what mends it."""

    path: Path
    message: str
    fix: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}. {self.fix}"


# Size, inode and both times: a file rewritten with its old modification time still differs.
Signature = tuple[int, int, int, int]


class SkillFolders:
    """The skills below some folders, read once and again only where a file has changed.

    `roots` maps the path a folder has inside the sandbox to the folder on the host. A folder that does
    not exist yet holds no skills. Where two skills claim one name the first keeps it, in the order of
    `roots`, then of folder names. Safe to use from several threads.

    A skill of `/skills.d/learned` that is listed first takes the place of another without a word.
    A skill from outside, that is from any mount but these two, is unavailable until `trusted` names it: as
    `<folder of skills>/<its folder>`, or as `<its folder>` alone in whichever folder of skills. It is named
    by its folder, for what SKILL.md says of itself is what is not trusted yet. None trusts all of them.
    """

    def __init__(self, roots: Mapping[str, Path], *, trusted: Collection[str] | None = None) -> None:
        self._roots = dict(roots)
        self._trusted = None if trusted is None else frozenset(trusted)
        self._known: dict[Path, tuple[Signature, Skill]] = {}
        self._logged: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def scan(self) -> tuple[Skill, ...]:
        """Every skill there is now, unusable ones with their `problem`; blocks on the disk.

        A SKILL.md whose size, inode and times are those of the last scan is not opened. What is wrong
        with a skill is logged once, until it changes.
        """
        with self._lock:
            known: dict[Path, tuple[Signature, Skill]] = {}
            for mount, root in self._roots.items():
                known.update(self._scan_root(mount, root))
            self._known = known
            skills = tuple(_without_duplicates(self._judged(skill) for _, skill in known.values()))
            self._log(skills)
            return skills

    def _judged(self, skill: Skill) -> Skill:
        if self._trusted is None or skill.problem or not skill.outside:
            return skill
        mount, folder = PurePosixPath(skill.path).parts[-3:-1]
        if {folder, f"{mount}/{folder}"} & self._trusted:
            return skill
        # Its own words, the name too, stay out of prompts and lists.
        return Skill(
            _cut(folder, MAX_NAME_CHARS),
            "",
            skill.path,
            f"it comes from outside and is not trusted; to trust it, add {mount}/{folder} to SKILLS_TRUSTED",
        )

    def _scan_root(self, mount: str, root: Path) -> Iterator[tuple[Path, tuple[Signature, Skill]]]:
        try:
            folders = _folders(root)
        except FileNotFoundError:
            return
        except OSError as error:
            problem = f"the folder cannot be read: {error.strerror}"
            yield root, ((0, 0, 0, 0), Skill(Path(mount).name, "", mount, problem))
            return
        for folder in folders:
            file = folder / SKILL_FILE
            signature = _signature(file)
            if signature is None:
                continue
            known = self._known.get(file)
            yield file, known if known and known[0] == signature else (signature, _load(file, root, mount))

    def _log(self, skills: Iterable[Skill]) -> None:
        found = {(skill.path, f"cannot be used: {skill.problem}") for skill in skills if skill.problem}
        found |= {(skill.path, warning) for skill in skills for warning in skill.warnings}
        for path, message in sorted(found - self._logged):
            logger.warning("Skill %s: %s", path, message)
        self._logged = found


def discover_skills(path: str | Path, *, mount: str = "/skills") -> list[Skill]:
    """The skills in the folders below `path`, sorted by folder name; unusable ones have a `problem`.

    `mount` is where the sandbox shows `path`. No folder at `path` means no skills. Blocks on the disk.
    """
    return list(SkillFolders({mount: Path(path)}).scan())


def validate_skills(path: str | Path) -> list[Problem]:
    """Every breach of the Agent Skills rules in `path`: one skill's folder, or a folder of skills.

    An empty list means all is well. Stricter than loading: a folder without SKILL.md, a name that
    differs from its folder's and a field the format does not know are problems too. Blocks on the disk.
    """
    path = Path(path).resolve()
    one_skill = _signature(path / SKILL_FILE) is not None
    try:
        folders = [path] if one_skill else _folders(path)
    except OSError as error:
        return [Problem(path, f"cannot be read: {error.strerror}", "Name a skill or a folder of skills.")]
    problems: list[Problem] = []
    owners: dict[str, Path] = {}
    for folder in folders:
        file = folder / SKILL_FILE
        if _signature(file) is None:
            problems.append(Problem(folder, "has no SKILL.md", "Add one, spelt exactly so, or move it away."))
            continue
        fields, findings = _read(file, root=folder.parent)
        problems += [Problem(file, finding.message, finding.fix) for finding in findings]
        owner = owners.setdefault(_name(fields, folder.name), file)
        if owner != file:
            problems.append(Problem(file, f"has the same name as {owner}", "Rename one of them."))
    return problems


def _folders(root: Path) -> list[Path]:
    with os.scandir(root) as entries:
        names = [entry.name for entry in entries if entry.is_dir() and not entry.name.startswith((".", "__"))]
    return [root / name for name in sorted(names)]


def _signature(file: Path) -> Signature | None:
    """What tells this state of the file from another, or None where there is no file."""
    try:
        found = file.stat()
    except OSError:
        # A link to nothing, or to itself: it is there, and its reading will say what is wrong with it.
        try:
            found = file.lstat()
        except OSError:
            return None
    return found.st_size, found.st_ino, found.st_mtime_ns, found.st_ctime_ns


def _load(file: Path, root: Path, mount: str) -> Skill:
    folder = file.parent.name
    fields, findings = _read(file, root)
    problem = next((finding.message for finding in findings if finding.fatal), None)
    description = fields.get("description")
    return Skill(
        name=_name(fields, folder),
        description=_cut(fold(description), MAX_DESCRIPTION_CHARS) if isinstance(description, str) else "",
        path=f"{mount}/{fold(folder)}/{SKILL_FILE}",
        problem=problem and fold(problem),
        warnings=() if problem else tuple(fold(finding.message) for finding in findings),
    )


def _read(file: Path, root: Path) -> tuple[Mapping[str, object], list[Finding]]:
    try:
        fields = parse_front_matter(_content(file, root))
    except UnreadableSkill as error:
        return {}, [error.finding]
    return fields, list(check_fields(fields, folder=file.parent.name))


def _content(file: Path, root: Path) -> bytes:
    folder = file.parent.name
    if fold(folder) != folder or "`" in folder:
        raise UnreadableSkill("the folder name cannot be shown in one line", fix="Rename the folder.")
    try:
        found = file.stat()
        if not stat.S_ISREG(found.st_mode):
            raise UnreadableSkill("SKILL.md is not a regular file", fix="Make it a plain text file.")
        if found.st_size > MAX_SKILL_BYTES:
            raise UnreadableSkill(
                f"SKILL.md has {found.st_size:,} bytes (limit {MAX_SKILL_BYTES:,})",
                fix="Move details into files beside it.",
            )
        # The sandbox sees this folder alone: a link that leaves it leads nowhere in there, and could put
        # the first lines of any file of the host into a prompt.
        if not file.resolve().is_relative_to(root.resolve() / folder):
            raise UnreadableSkill("SKILL.md is a link out of its folder", fix="Copy the skill here.")
        return file.read_bytes()
    except FileNotFoundError as error:
        raise UnreadableSkill("SKILL.md is a link to nothing", fix="Mend or remove the link.") from error
    except OSError as error:
        raise UnreadableSkill(
            f"SKILL.md cannot be read: {error.strerror}", fix="Make it readable."
        ) from error


def _name(fields: Mapping[str, object], folder: str) -> str:
    name = fields.get("name")
    return _cut(fold(name if isinstance(name, str) else "") or fold(folder), MAX_NAME_CHARS)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1].rstrip()}…"


def _without_duplicates(skills: Iterable[Skill]) -> Iterator[Skill]:
    owners: dict[str, str] = {}
    for skill in skills:
        owner = skill.path if skill.problem else owners.setdefault(skill.name, skill.path)
        if owner == skill.path:
            yield skill
        elif not owner.startswith(f"{LEARNED_MOUNT}/"):
            yield replace(skill, problem=f"its name is already used by {owner}", warnings=())
