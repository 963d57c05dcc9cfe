"""Find and read the skills on disk.

Loading is lenient: it marks only skills that an agent cannot use. `validate_skills` is strict: it reports
every breach of a rule. Both read SKILL.md in the same way.
"""

from __future__ import annotations

import logging
import os
import stat
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from libs.middleware.skills.skill_rules import (
    MAX_DESCRIPTION_CHARS,
    MAX_NAME_CHARS,
    Finding,
    UnreadableSkill,
    check_fields,
    cut,
    fold,
    parse_front_matter,
)
from libs.sandbox import LEARNED_MOUNT, OWN_MOUNT

__all__ = ["MAX_SKILL_BYTES", "Problem", "Skill", "SkillFolders", "discover_skills", "validate_skills"]

logger = logging.getLogger(__name__)

MAX_SKILL_BYTES = 1_000_000
SKILL_FILE = "SKILL.md"


@dataclass(frozen=True)
class Skill:
    """One skill as the prompt lists it.

    `name` (at most 64 characters) and `description` (at most 1,024) are single lines. `path` is the path of
    SKILL.md inside the sandbox. `problem` is one line, or None if the skill can be used.
    """

    name: str
    description: str
    path: str
    problem: str | None = None

    @property
    def outside(self) -> bool:
        """Whether the skill comes from `SKILLS_DIRS`, so was neither made nor approved here."""
        return not self.path.startswith((f"{OWN_MOUNT}/", f"{LEARNED_MOUNT}/"))


@dataclass(frozen=True)
class Problem:
    """One breach of a rule, with its place and a fix."""

    path: Path
    message: str
    fix: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}. {self.fix}"


# Size, inode, mtime and ctime. The ctime differs if a file is rewritten with its old mtime.
Signature = tuple[int, int, int, int]


class SkillFolders:
    """The skills in some folders. A file is read again only after a change. Thread-safe.

    `roots` maps the path of a folder inside the sandbox to the folder on the host. A folder may be missing.
    If two skills have the same name, the first is used, in the order of `roots` and then of folder names. A
    skill in `/skills.d/learned` replaces another one without a warning.

    A skill from outside, so from any mount but `/skills` and `/skills.d/learned`, cannot be used until
    `trusted` names it, as `<folder of skills>/<its folder>` or `<its folder>`. The folder is named because
    the text of SKILL.md is not trusted yet. `trusted=None` trusts all skills.
    """

    def __init__(self, roots: Mapping[str, Path], *, trusted: Collection[str] | None = None) -> None:
        self._roots = dict(roots)
        self._trusted = None if trusted is None else frozenset(trusted)
        self._known: dict[Path, tuple[Signature, Skill]] = {}
        self._logged: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def scan(self) -> tuple[Skill, ...]:
        """Return all skills, unusable ones with their `problem`. Blocks on the disk.

        An unchanged SKILL.md is not opened. A problem is logged once, until the skill changes.
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
        # No text of an untrusted skill, not even its name, may enter a prompt or list.
        return Skill(
            cut(folder, MAX_NAME_CHARS),
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
        found = {(skill.path, skill.problem) for skill in skills if skill.problem}
        for path, problem in sorted(found - self._logged):
            logger.warning("Skill %s: cannot be used: %s", path, problem)
        self._logged = found


def discover_skills(path: str | Path, *, mount: str = "/skills") -> list[Skill]:
    """Return the skills in the folders of `path`, sorted by folder name; unusable ones have a `problem`.

    `mount` is the path of the folder inside the sandbox. `path` may be missing. Blocks on the disk.
    """
    return list(SkillFolders({mount: Path(path)}).scan())


def validate_skills(path: str | Path) -> list[Problem]:
    """Return every breach of the Agent Skills rules in `path`: a skill's folder, or a folder of skills.

    Stricter than loading: a folder without SKILL.md, a name that differs from the folder's name and an
    unknown field are problems too. Blocks on the disk.
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
    """Return a value that changes with the file, or None if there is no file."""
    try:
        # A broken link is a file too: reading the file will give the error.
        found = file.stat() if file.exists() else file.lstat()
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
        description=cut(fold(description), MAX_DESCRIPTION_CHARS) if isinstance(description, str) else "",
        path=f"{mount}/{fold(folder)}/{SKILL_FILE}",
        problem=problem and fold(problem),
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
        # The link is broken inside the sandbox, and could put lines of any file of the host into a prompt.
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
    return cut(fold(name if isinstance(name, str) else "") or fold(folder), MAX_NAME_CHARS)


def _without_duplicates(skills: Iterable[Skill]) -> Iterator[Skill]:
    owners: dict[str, str] = {}
    for skill in skills:
        owner = skill.path if skill.problem else owners.setdefault(skill.name, skill.path)
        if owner == skill.path:
            yield skill
        elif not owner.startswith(f"{LEARNED_MOUNT}/"):
            yield replace(skill, problem=f"its name is already used by {owner}")
