"""Opens paths that a model writes, and never leaves one folder.

A path that is checked and then opened by name can change in between. So each folder of the path is opened
from the folder before (openat(2)), never through a link (O_NOFOLLOW), and used by its descriptor.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["LiteError", "PathRefused", "SandboxPath", "resolve_sandbox_path"]

MAX_PATH = 1_000
"""Characters of a path."""
MAX_FOLDERS = 32
"""Folders in one another."""
UNFINISHED = re.compile(r"\.unfinished-[0-9a-f]{16}")
"""Name of a file while it is written."""


class LiteError(Exception):
    """Ends the run. `str(error)` is shown to the person: no secret, no path of this machine.

    It names the files in `written`, which the run wrote before.
    """

    written: Collection[str] = ()

    def __str__(self) -> str:
        told = super().__str__()
        names = ", ".join(map(repr, sorted(self.written)))
        return f"{told.removesuffix('.')}. Files written before: {names}" if names else told


class PathRefused(LiteError):
    """The path leads, or could lead, out of the folder."""


@dataclass(frozen=True, slots=True)
class SandboxPath:
    """A name in an open folder; the file need not exist."""

    folder: int
    """Descriptor of the folder."""
    name: str
    """The last part of the path; `.` for the whole folder."""

    def open_file(self) -> int:
        """Open the file for reading; the caller closes it. A pipe or device does not block.

        Raises:
            OSError: the name is missing, a link (ELOOP), a folder (EISDIR) or no regular file (EINVAL).
        """
        opened = os.open(self.name, os.O_RDONLY | os.O_NONBLOCK | _SAFE, dir_fd=self.folder)
        mode = os.fstat(opened).st_mode
        if not stat.S_ISREG(mode):
            os.close(opened)
            raise OSError(errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL, "no regular file")
        return opened

    def open_folder(self) -> int:
        """Open the folder; the caller closes it. Raises OSError, also for a link."""
        return os.open(self.name, _FOLDER, dir_fd=self.folder)

    def kind(self) -> int:
        """Return the type bits of its mode without following a link; 0 if the name does not exist."""
        try:
            return stat.S_IFMT(os.stat(self.name, dir_fd=self.folder, follow_symlinks=False).st_mode)
        except FileNotFoundError:
            return 0

    def replace(self, data: bytes) -> None:
        """Write a new file and rename it: no reader sees half a file, and a link is not followed.

        A file keeps its mode, without set-uid bits. If root writes, the file belongs to the owner of its
        folder.

        Raises:
            OSError: also if the existing file may not be written.
        """
        mode = 0o644
        with suppress(FileNotFoundError):
            earlier = os.stat(self.name, dir_fd=self.folder, follow_symlinks=False).st_mode
            if stat.S_ISREG(earlier):  # every link has mode 777
                mode = earlier & 0o777
            if not os.access(self.name, os.W_OK, dir_fd=self.folder, follow_symlinks=False):
                read_only = os.fstatvfs(self.folder).f_flag & os.ST_RDONLY
                why = errno.EROFS if read_only else errno.EACCES
                raise OSError(why, os.strerror(why))
        unfinished = f".unfinished-{secrets.token_hex(8)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        opened = os.open(unfinished, flags, 0o644, dir_fd=self.folder)
        try:
            with os.fdopen(opened, "wb") as file:
                file.write(data)
                owner = os.fstat(self.folder)
                if os.geteuid() == 0:
                    os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
                os.fchmod(file.fileno(), mode)
            os.rename(unfinished, self.name, src_dir_fd=self.folder, dst_dir_fd=self.folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(unfinished, dir_fd=self.folder)
            raise


# Absent on Windows, which cannot open a file from a folder: `resolve_sandbox_path` refuses there.
_SAFE = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _SAFE


@contextmanager
def resolve_sandbox_path(root: Path, path: str, *, make_folders: bool = False) -> Iterator[SandboxPath]:
    """Resolve a path in `root`, which is created if missing. The result is valid inside a `with`.

    Args:
        root: the folder that must not be left. Its parents are trusted; `root` must not be a link.
        path: relative, with `/`; `.` is the folder itself.
        make_folders: whether missing folders of the path are created.

    Raises:
        LiteError: the folder cannot be made or opened, or is a link.
        PathRefused: the path is empty, absolute or too long, ends with `/`, contains `..`, NUL or a character
            that is no text, or passes through a link.
        OSError: a folder of the path is missing, or another error of the system.
    """
    names = _names(path)
    if os.open not in os.supports_dir_fd:
        raise PathRefused("run-lite needs a system that opens files from a folder: Linux or macOS.")
    try:
        root.mkdir(parents=True, exist_ok=True)
        folder = os.open(root, _FOLDER)
    except OSError as error:
        is_none = error.errno in (errno.EEXIST, errno.ENOTDIR, errno.ELOOP)
        why = "a file or a link has its name" if is_none else error.strerror
        raise LiteError(f"The folder of run-lite cannot be opened: {why}.") from None
    try:
        for name in names[:-1]:
            inner = _enter(folder, name, path, make=make_folders)
            os.close(folder)
            folder = inner
        yield SandboxPath(folder, names[-1] if names else ".")
    finally:
        os.close(folder)


def _names(path: str) -> list[str]:
    """Return the parts of a path; refuse a path that could lead upwards."""
    if not path or len(path) > MAX_PATH:
        raise PathRefused(f"A path has 1 to {MAX_PATH:,} characters.")
    if path.startswith("/"):
        raise PathRefused(f"The path {path!r} is absolute: give one relative to the folder.")
    names = [name for name in path.split("/") if name not in ("", ".")]
    if names and path.endswith(("/", "/.")):
        raise PathRefused(f"The path {path!r} names a folder: give one of a file.")
    if ".." in names:
        raise PathRefused(f"The path {path!r} holds '..': nothing outside of the folder can be reached.")
    if len(names) > MAX_FOLDERS + 1:
        raise PathRefused(f"The path has more than {MAX_FOLDERS} folders in one another.")
    if "\0" in path or any("\ud800" <= character <= "\udfff" for character in path):
        raise PathRefused(f"The path {path!r} holds a character that no name can have.")
    if any(map(UNFINISHED.fullmatch, names)):
        raise PathRefused(f"The path {path!r} holds a name that only unfinished files have.")
    return names


def _enter(folder: int, name: str, path: str, *, make: bool) -> int:
    """Open a folder in a folder; `make` creates a missing folder."""
    place = SandboxPath(folder, name)
    if make:
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=folder)
    try:
        return place.open_folder()
    except OSError as error:
        # Systems report links and files with the same errors; the kind is read only for the message.
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and place.kind() == stat.S_IFLNK:
            raise PathRefused(f"The path {path!r} passes through a link, which is not followed.") from None
        raise
