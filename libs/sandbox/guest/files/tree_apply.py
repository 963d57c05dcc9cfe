"""Brings paths of the workspace to another state (standard library only).

No link is followed, so nothing outside the workspace is written. A file is replaced at once and never half.
Every path is compared with what it is expected to hold, and left alone if it holds something else.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from typing import Any, Final

from libs.sandbox.guest.files.disk import draft
from libs.sandbox.guest.files.tree_folders import FILE, Folders, digest_of
from libs.sandbox.guest.workers.frame_pipes import write_all

__all__ = ["apply"]

_CHANGED: Final = "it has changed meanwhile"
_PIECE: Final = 1024 * 1024

Step = dict[str, Any]
"""`path`; `do`: `remove`, `dir`, `link`, `file` or `mode`; `old`: what the path is expected to hold, as kind,
size, and SHA-256 or link target; None for nothing. The kind `unkept` is a file with size and time in
nanoseconds, `special` is a FIFO, a socket or a device. Where the step needs them: `mode`, `mtime` in
nanoseconds, `target`, and `size` of the content, which follows in the input."""


def apply(steps: list[Step], room: int, content: Callable[[int], Iterator[bytes]]) -> dict[str, str]:
    """Take the steps in their order. Return the paths that were left alone, each with the reason.

    Args:
        room: bytes that all steps need on the disk. Without that room nothing is changed.
        content: yields the next bytes of the input, as many as are asked for.

    Raises:
        OSError: the disk has not enough room.
    """
    disk = os.statvfs("/proc/self/cwd")
    if room > disk.f_bavail * disk.f_frsize:
        raise OSError(errno.ENOSPC, f"{room:,} bytes are needed on the disk: free some space")
    left: dict[str, str] = {}
    with _Applied() as applied:
        for step in steps:
            pieces = content(step.get("size", 0))
            try:
                why = applied.take(step, pieces)
            except OSError as error:
                why = (error.strerror or str(error)).lower()
            for _ in pieces:
                pass  # the content of a path that is left alone
            if why:
                left[step["path"]] = why
    return left


class _Applied(Folders):
    """Takes steps. At the end, folders that were made writable get their permissions back."""

    def __init__(self) -> None:
        super().__init__()
        self._widened: dict[str, tuple[int, int]] = {}
        """Path of a folder -> the open folder, and its permissions before."""

    def __exit__(self, *_: object) -> None:
        for folder, mode in self._widened.values():
            with contextlib.suppress(OSError):
                _set_mode(folder, mode)
            os.close(folder)
        super().__exit__()

    def take(self, step: Step, pieces: Iterator[bytes]) -> str | None:
        """Take one step; return why its path was left alone."""
        path: str = step["path"]
        folder, name = self.parent(path)
        if not _holds(folder, name, step["old"]):
            return _CHANGED
        try:
            _change(folder, name, step, pieces)
        except PermissionError:
            if not self._widen(path.rpartition("/")[0], folder):
                raise
            _change(folder, name, step, pieces)
        if step["do"] == "mode" and path in self._widened:
            os.close(self._widened.pop(path)[0])
        return None

    def _widen(self, path: str, folder: int) -> bool:
        """Let the owner of a folder write to it. Return False if the owner may do so already."""
        mode = stat.S_IMODE(os.fstat(folder).st_mode)
        if mode & stat.S_IRWXU == stat.S_IRWXU:
            return False
        _set_mode(folder, mode | stat.S_IRWXU)
        self._widened[path] = os.dup(folder), mode
        return True


def _holds(folder: int, name: str, old: list[Any] | None) -> bool:
    """Return whether a path holds what is expected."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return old is None
    if old is None:
        return False
    kind, size, value = old
    if kind == "dir":
        return stat.S_ISDIR(found.st_mode)
    if kind == "link":
        return stat.S_ISLNK(found.st_mode) and bool(os.readlink(name, dir_fd=folder) == value)
    if kind == "special":
        return not any(is_kind(found.st_mode) for is_kind in (stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK))
    if not stat.S_ISREG(found.st_mode) or found.st_size != size:
        return False
    if kind == "unkept":
        return bool(found.st_mtime_ns == value)
    with _opened(folder, name) as file:
        return bool(digest_of(file, size) == value)


@contextlib.contextmanager
def _opened(folder: int, name: str) -> Iterator[int]:
    file = os.open(name, FILE, dir_fd=folder)
    try:
        yield file
    finally:
        os.close(file)


def _shared(found: os.stat_result) -> bool:
    """Return whether a file has other names, which must not change, or belongs to another user."""
    return found.st_nlink > 1 or found.st_uid != os.geteuid()


def _change(folder: int, name: str, step: Step, pieces: Iterator[bytes]) -> None:
    do, old = step["do"], step["old"]
    if do == "remove":
        (os.rmdir if old[0] == "dir" else os.unlink)(name, dir_fd=folder)
    elif do == "dir":
        # Open for its owner until all that lies in it is made. The step `mode` comes last.
        os.mkdir(name, step["mode"] | stat.S_IRWXU, dir_fd=folder)
    elif do == "link":
        os.symlink(step["target"], name, dir_fd=folder)
    elif do == "file":
        with draft(folder, name, step["mode"], there=old is not None) as file:
            found = hashlib.sha256()
            for piece in pieces:
                write_all(file, piece)
                found.update(piece)
            if found.hexdigest() != step["sha256"]:
                raise OSError(errno.EIO, "its content arrived damaged")
            os.utime(file, ns=(step["mtime"], step["mtime"]))
    elif "mtime" in step and _shared(os.stat(name, dir_fd=folder, follow_symlinks=False)):
        with _opened(folder, name) as file, draft(folder, name, step["mode"], there=True) as copy:
            while os.sendfile(copy, file, None, _PIECE):
                pass
            os.utime(copy, ns=(step["mtime"], step["mtime"]))
    else:
        opened = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            _set_mode(opened, step["mode"])
            if "mtime" in step:
                os.utime(f"/proc/self/fd/{opened}", ns=(step["mtime"], step["mtime"]))
        finally:
            os.close(opened)


def _set_mode(opened: int, mode: int) -> None:
    # By this path chmod(2) reaches exactly what was opened, with O_PATH too.
    os.chmod(f"/proc/self/fd/{opened}", mode)
