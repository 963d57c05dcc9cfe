"""Find the skills on disk, for the prompt.

Loading is lenient: it marks only skills that an agent cannot use. `skill_validation.py` is strict. Both read
a skill in the same way (`skill_reading.py`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from libs.middleware.skills.skill_reading import (
    SKILL_FILE,
    Signature,
    read_skill,
    signature,
    skill_files,
    skill_name,
)
from libs.middleware.skills.skill_rules import MAX_DESCRIPTION_CHARS, MAX_NAME_CHARS, cut, fold
from libs.sandbox import LEARNED_MOUNT, OWN_MOUNT, is_trusted

__all__ = ["Skill", "SkillFolders", "discover_skills"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Skill:
    """One skill as the prompt lists it.

    `name` (at most 64 characters) and `description` (at most 1,024) are single lines. `path` is the path
    inside the sandbox of SKILL.md, or of the module of a skill that is one Python file. `problem` is one
    line, or None if the skill can be used.
    """

    name: str
    description: str
    path: str
    problem: str | None = None

    @property
    def outside(self) -> bool:
        """Whether the skill comes from `SKILLS_DIRS`, so was neither made nor approved here."""
        return not self.path.startswith((f"{OWN_MOUNT}/", f"{LEARNED_MOUNT}/"))


class SkillFolders:
    """The skills in some folders. A file is read again only after a change. Thread-safe.

    `roots` maps the path of a folder inside the sandbox to the folder on the host. A folder may be missing.
    If two skills have the same name, the first is used, in the order of `roots` and then of file names. A
    skill in `/skills.d/learned` replaces another one without a warning.

    A skill from outside, so from any mount but `/skills` and `/skills.d/learned`, cannot be used until
    `trusted` names it (see `is_trusted`). `trusted=None` trusts all skills.
    """

    def __init__(self, roots: Mapping[str, Path], *, trusted: Collection[str] | None = None) -> None:
        self._roots = dict(roots)
        self._trusted = None if trusted is None else frozenset(trusted)
        self._known: dict[Path, tuple[Signature, Skill]] = {}
        self._logged: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def scan(self) -> tuple[Skill, ...]:
        """Return all skills, unusable ones with their `problem`. Blocks on the disk.

        An unchanged file is not opened. A problem is logged once, until the skill changes.
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
        place = PurePosixPath(skill.path.removesuffix(f"/{SKILL_FILE}"))
        if skill.path in self._roots or is_trusted(place, self._trusted):
            return skill
        # No text of an untrusted skill, not even its name, may enter a prompt or list.
        return Skill(
            cut(place.name, MAX_NAME_CHARS),
            "",
            skill.path,
            "it comes from outside and is not trusted; to trust it, add "
            f"{place.parent.name}/{place.name} to SKILLS_TRUSTED",
        )

    def _scan_root(self, mount: str, root: Path) -> Iterator[tuple[Path, tuple[Signature, Skill]]]:
        try:
            files = skill_files(root)
        except FileNotFoundError:
            return
        except OSError as error:
            problem = f"the folder cannot be read: {error.strerror}"
            yield root, ((0, 0, 0, 0), Skill(Path(mount).name, "", mount, problem))
            return
        for file in files:
            now = signature(file)
            if now is None:
                continue
            known = self._known.get(file)
            yield file, known if known and known[0] == now else (now, _load(file, root, mount))

    def _log(self, skills: Iterable[Skill]) -> None:
        found = {(skill.path, skill.problem) for skill in skills if skill.problem}
        for path, problem in sorted(found - self._logged):
            logger.warning("Skill %s: cannot be used: %s", path, problem)
        self._logged = found


def discover_skills(path: str | Path, *, mount: str = "/skills") -> list[Skill]:
    """Return the skills in `path`, sorted by the name of folder or module; unusable ones have a `problem`.

    `mount` is the path of the folder inside the sandbox. `path` may be missing. Blocks on the disk.
    """
    return list(SkillFolders({mount: Path(path)}).scan())


def _load(file: Path, root: Path, mount: str) -> Skill:
    fields, findings = read_skill(file, root)
    problem = next((finding.message for finding in findings if finding.fatal), None)
    description = fields.get("description")
    return Skill(
        name=skill_name(fields, file),
        description=cut(fold(description), MAX_DESCRIPTION_CHARS) if isinstance(description, str) else "",
        path="/".join((mount, *(fold(part) for part in file.relative_to(root).parts))),
        problem=problem and fold(problem),
    )


def _without_duplicates(skills: Iterable[Skill]) -> Iterator[Skill]:
    owners: dict[str, str] = {}
    for skill in skills:
        owner = skill.path if skill.problem else owners.setdefault(skill.name, skill.path)
        if owner == skill.path:
            yield skill
        elif not owner.startswith(f"{LEARNED_MOUNT}/"):
            yield replace(skill, problem=f"its name is already used by {owner}")
