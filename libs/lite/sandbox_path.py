"""Paths that a model writes, opened so that nothing outside of one folder is ever touched.

A path that was checked and is then opened by name can be another one by then. Here every folder on the way is
opened from the one before (openat(2)), never through a link (O_NOFOLLOW), and what is found is used by its
descriptor: what was checked is what is used.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from libs.lite.errors import LiteError

__all__ = ["PathRefused", "SandboxPath", "resolve_sandbox_path"]

MAX_PATH = 1_000
"""Characters of a path."""


class PathRefused(LiteError):
    """The path leads, or could lead, out of the folder."""


@dataclass(frozen=True, slots=True)
class SandboxPath:
    """A place in the folder, which need not exist: a name in a folder that is held open."""

    folder: int
    """Descriptor of the folder that it is in."""
    name: str
    """The last part of the path; `.` for the whole folder."""

    def open_file(self) -> int:
        """Open it for reading, whoever has to close it; a pipe or device does not block.

        Raises:
            OSError: it is not there, is a link (ELOOP), a folder (EISDIR) or anything else that is no regular
                file (EINVAL), or may not be read.
        """
        opened = os.open(self.name, os.O_RDONLY | os.O_NONBLOCK | _SAFE, dir_fd=self.folder)
        mode = os.fstat(opened).st_mode
        if not stat.S_ISREG(mode):
            os.close(opened)
            raise OSError(errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL, "no regular file")
        return opened

    def open_folder(self) -> int:
        """Open it as a folder, whoever has to close it.

        Raises:
            OSError: it is not there, or is no folder; a link to one is none.
        """
        return os.open(self.name, _FOLDER, dir_fd=self.folder)

    def kind(self) -> int:
        """The type bits of its mode, those of a link where it is one; 0 where there is nothing."""
        try:
            return stat.S_IFMT(os.stat(self.name, dir_fd=self.folder, follow_symlinks=False).st_mode)
        except FileNotFoundError:
            return 0


# Absent on Windows, where nothing can be opened from a folder: there `resolve_sandbox_path` says so.
_SAFE = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _SAFE


def resolve_sandbox_path(
    root: Path, path: str, *, make_folders: bool = False
) -> AbstractContextManager[SandboxPath]:
    """Resolve a path in `root`, which is made where it is missing; what comes is good within a `with`.

    Args:
        root: the folder that must not be left. What leads to it is trusted; it may be no link itself.
        path: relative, with `/`; `.` is the folder itself.
        make_folders: whether folders on the way are made where they are missing.

    Raises:
        PathRefused: the path is empty, absolute or too long, holds `..` or NUL or what is no text, or
            passes through a link.
        FileNotFoundError: a folder on the way is not there.
        OSError: anything else that the system refuses.
    """
    return _resolved(root, path, _names(path), make=make_folders)


@contextmanager
def _resolved(root: Path, path: str, names: list[str], *, make: bool) -> Iterator[SandboxPath]:
    if os.open not in os.supports_dir_fd:
        raise PathRefused("run-lite needs a system that opens files from a folder: Linux or macOS.")
    root.mkdir(parents=True, exist_ok=True)
    folder = os.open(root, _FOLDER)
    try:
        for name in names[:-1]:
            inner = _enter(folder, name, path, make=make)
            os.close(folder)
            folder = inner
        yield SandboxPath(folder, names[-1] if names else ".")
    finally:
        os.close(folder)


def _names(path: str) -> list[str]:
    """The parts of a path that cannot lead upwards."""
    if not path or len(path) > MAX_PATH:
        raise PathRefused(f"A path has 1 to {MAX_PATH:,} characters.")
    if path.startswith("/"):
        raise PathRefused(f"The path {path!r} is absolute: give one relative to the folder.")
    names = [name for name in path.split("/") if name not in ("", ".")]
    if ".." in names:
        raise PathRefused(f"The path {path!r} holds '..': nothing outside of the folder can be reached.")
    if "\0" in path or any("\ud800" <= character <= "\udfff" for character in path):
        raise PathRefused(f"The path {path!r} holds a character that no name can have.")
    return names


def _enter(folder: int, name: str, path: str, *, make: bool) -> int:
    """Open a folder in a folder, made first where that is wanted."""
    place = SandboxPath(folder, name)
    if make:
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=folder)
    try:
        return place.open_folder()
    except OSError as error:
        # What is a link, and what no folder, systems do not tell apart. Asked only to say which.
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and place.kind() == stat.S_IFLNK:
            raise PathRefused(f"The path {path!r} passes through a link, which is not followed.") from None
        raise
