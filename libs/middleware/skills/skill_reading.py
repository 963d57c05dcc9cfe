"""Read the fields of one skill from the front matter of its SKILL.md, or from the docstring of its module."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from libs.middleware.skills.skill_modules import check_module, parse_module
from libs.middleware.skills.skill_rules import (
    MAX_NAME_CHARS,
    Finding,
    UnreadableSkill,
    check_fields,
    cut,
    fold,
    parse_front_matter,
)

__all__ = [
    "MAX_SKILL_BYTES",
    "SKILL_FILE",
    "Signature",
    "place_of",
    "read_skill",
    "signature",
    "skill_files",
    "skill_name",
]

MAX_SKILL_BYTES = 1_000_000
SKILL_FILE = "SKILL.md"

# Size, inode, mtime and ctime. The ctime differs if a file is rewritten with its old mtime.
Signature = tuple[int, int, int, int]


def skill_files(root: Path) -> list[Path]:
    """Return the file of each skill in `root`: `<folder>/SKILL.md`, which may be missing, or `<module>.py`.

    Sorted by the name of the folder or module. Names that begin with `.`, folders that begin with `__`, and
    modules that begin with `_` are not skills.

    Raises:
        OSError: the folder cannot be read.
    """
    # `Path.is_dir`, unlike `os.DirEntry.is_dir`, raises no error for a link to itself.
    found = [(name, (root / name).is_dir()) for name in sorted(os.listdir(root))]  # noqa: PTH208 - names
    return [
        root / name / SKILL_FILE if is_folder else root / name
        for name, is_folder in found
        if (not name.startswith((".", "__")) if is_folder else name.endswith(".py") and name[0] not in "._")
    ]


def signature(file: Path) -> Signature | None:
    """Return a value that changes with the file, or None if there is no file."""
    try:
        # A broken link is a file too: reading the file will give the error.
        found = file.stat() if file.exists() else file.lstat()
    except OSError:
        return None
    return found.st_size, found.st_ino, found.st_mtime_ns, found.st_ctime_ns


def place_of(file: Path) -> Path:
    """Return the path that names the skill: its folder, or its module."""
    return file.parent if file.name == SKILL_FILE else file


def read_skill(file: Path, root: Path) -> tuple[Mapping[str, object], list[Finding]]:
    """Return the fields of the skill and every rule that it breaks. `file` is one of `skill_files(root)`."""
    try:
        content = _content(file, root)
        if file.name == SKILL_FILE:
            fields = parse_front_matter(content)
            return fields, list(check_fields(fields, folder=file.parent.name))
        fields = parse_module(content, file.name)
        return fields, list(check_module(fields, file.name))
    except UnreadableSkill as error:
        return {}, [error.finding]


def skill_name(fields: Mapping[str, object], file: Path) -> str:
    """Return the skill's own name; without one, the name of its folder or module."""
    name = fields.get("name")
    return cut(fold(name if isinstance(name, str) else "") or fold(_stem(file)), MAX_NAME_CHARS)


def _stem(file: Path) -> str:
    return file.parent.name if file.name == SKILL_FILE else file.stem


def _content(file: Path, root: Path) -> bytes:
    place, said = place_of(file).name, fold(file.name)
    kind = "folder" if file.name == SKILL_FILE else "file"
    if fold(place) != place or "`" in place:
        raise UnreadableSkill(f"the {kind} name cannot be shown in one line", fix=f"Rename the {kind}.")
    try:
        found = file.stat()
        if not stat.S_ISREG(found.st_mode):
            raise UnreadableSkill(f"{said} is not a regular file", fix="Make it a plain text file.")
        if found.st_size > MAX_SKILL_BYTES:
            raise UnreadableSkill(
                f"{said} has {found.st_size:,} bytes (limit {MAX_SKILL_BYTES:,})",
                fix="Move details into files beside it.",
            )
        # The link is broken inside the sandbox, and could put lines of any file of the host into a prompt.
        if not file.resolve().is_relative_to(root.resolve() / place):
            raise UnreadableSkill(f"{said} is a link out of its folder", fix="Copy the skill here.")
        return file.read_bytes()
    except FileNotFoundError as error:
        raise UnreadableSkill(f"{said} is a link to nothing", fix="Mend or remove the link.") from error
    except OSError as error:
        raise UnreadableSkill(f"{said} cannot be read: {error.strerror}", fix="Make it readable.") from error
