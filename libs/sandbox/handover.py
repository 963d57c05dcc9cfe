"""A workspace that belongs to root on the host: what root puts there is the sandbox's user's to change.

The sandbox is never root, and a copied file is root's, its mode that of the source. So what is there is
handed over at the start, and what comes later before the next command: inotify(7) tells what that is
without looking through the folders again.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import stat
import struct
import termios
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

__all__ = ["Handover"]

_EVENT: Final = struct.Struct("iIII")
_CREATED, _MOVED_IN, _OVERFLOW, _IGNORED = 0x100, 0x80, 0x4000, 0x8000
_FOLDERS_ONLY: Final = 0x01000000
_READ: Final = 64 * 1024
_DEEPEST: Final = 64
"""Folders below the root that are looked into, one in the other."""
_MOST_WATCHED: Final = 16_384
"""Folders that are watched, or half of what the kernel lets a user watch: other programs want some too."""
_SECONDS: Final = 5.0
"""Seconds that one look may take."""
_libc = ctypes.CDLL(None, use_errno=True)


class Handover:
    """Gives everything below a root-owned folder to a user, and goes on doing so until it is closed.

    No link is ever followed: the sandbox could have put one there in that moment. The folder itself stays
    root's, so that each start finds it the same. Linux only, and only for root.
    """

    def __init__(self, root: Path, uid: int) -> None:
        """Hand over what is there.

        Raises:
            OSError: the folder cannot be opened, or the kernel gives no inotify instance.
        """
        self._uid = uid
        self._acl = _default_acl(uid)
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        self._events = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._events < 0:
            os.close(self._root)
            raise OSError(number := ctypes.get_errno(), f"inotify_init1: {os.strerror(number)}")
        self._most_watched = min(_MOST_WATCHED, _allowed() // 2)
        self._watched: dict[int, tuple[str, ...]] = {}
        """Path below the root, part by part, of each watched folder."""
        self._names: set[tuple[str, ...]] = set()
        """The same paths."""
        self._lock = threading.Lock()
        self._closed = False
        self._deadline = time.monotonic() + _SECONDS
        os.chown(self._root, 0, uid)
        os.fchmod(self._root, 0o775)
        self._watch(self._root, ())
        self._look((), again=True)

    def news(self) -> bool:
        """Whether something was made or moved into the workspace since the last `catch_up`. Never blocks."""
        try:
            return any(fcntl.ioctl(self._events, termios.FIONREAD, bytes(4)))
        except (OSError, ValueError):  # closed
            return False

    def catch_up(self) -> None:
        """Hand over what has come since. One thread at a time; the others find nothing left."""
        with self._lock:
            if not self._closed:
                self._catch_up()

    def _catch_up(self) -> None:
        self._deadline = time.monotonic() + _SECONDS
        changed: dict[tuple[str, ...], set[str]] = {}
        missed = False
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._events, _READ):
                offset = 0
                while offset < len(data):
                    watch, mask, _, length = _EVENT.unpack_from(data, offset)
                    name = data[offset + _EVENT.size : offset + _EVENT.size + length].rstrip(b"\0")
                    offset += _EVENT.size + length
                    if mask & _IGNORED:  # the folder is gone, and the kernel's watch with it
                        self._names.discard(self._watched.pop(watch, ()))
                    elif mask & _OVERFLOW:
                        missed = True
                    elif watch in self._watched:
                        changed.setdefault(self._watched[watch], set()).add(os.fsdecode(name))
        if missed:
            self._look((), again=True)
        else:
            for parts, names in changed.items():
                self._look(parts, names)

    def close(self) -> None:
        """Stop watching."""
        with self._lock:
            if not self._closed:
                self._closed = True
                events, self._events = self._events, -1  # the number may soon be another file's
                os.close(events)
                os.close(self._root)

    @contextlib.contextmanager
    def _folder(self, parts: tuple[str, ...]) -> Iterator[int | None]:
        """A descriptor of a folder below the root, reached without following a link; None if it is gone."""
        folder = os.dup(self._root)
        try:
            for part in parts:
                inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
                os.close(folder)
                folder = inner
        except OSError:
            os.close(folder)
            yield None
            return
        try:
            yield folder
        finally:
            os.close(folder)

    def _look(
        self, parts: tuple[str, ...], names: Iterable[str] | None = None, *, again: bool = False
    ) -> None:
        """Give what is in a folder to the user, and what is in new ones below it, or `again` in all of them.

        The nearest come first: a person puts files there, and it may end early. A command can nest folders
        without end, or make and remove them while this looks; they are its own already.

        Args:
            names: what is looked at in the folder itself; None is everything.
        """
        waiting = deque([(parts, names)])
        while waiting and time.monotonic() < self._deadline:
            parts, names = waiting.popleft()
            with self._folder(parts) as folder, contextlib.suppress(OSError):  # it may be removed meanwhile
                if folder is not None:
                    taken = self._take(folder, parts, _names(folder) if names is None else names)
                    waiting.extend(((*parts, name), None) for name, new in taken if new or again)

    def _take(self, folder: int, parts: tuple[str, ...], names: Iterable[str]) -> Iterator[tuple[str, bool]]:
        """Give entries of a folder to the user. Those that are folders come back: name, whether it is new."""
        device = os.fstat(folder).st_dev
        for name in names:
            with contextlib.suppress(OSError):  # gone, or replaced by a link, in this moment
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if found.st_dev != device:
                    continue  # mounted there: it belongs to somebody else
                if found.st_uid == 0:
                    os.chown(name, self._uid, self._uid, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISDIR(found.st_mode) and len(parts) < _DEEPEST:
                    with _opened(name, folder) as inner:
                        yield name, self._watch(inner, (*parts, name))

    def _watch(self, folder: int, parts: tuple[str, ...]) -> bool:
        """Watch a folder; whether it was not watched before, under this name."""
        if len(self._watched) < self._most_watched:
            here = os.fsencode(f"/proc/self/fd/{folder}")
            watch = _libc.inotify_add_watch(self._events, here, _CREATED | _MOVED_IN | _FOLDERS_ONLY)
            before = self._watched.get(watch)
            if before == parts:
                return False
            if watch >= 0:
                self._names.discard(before or ())
                self._watched[watch] = parts
                self._names.add(parts)
        elif parts in self._names:
            return False
        # Covers the moment between a file's making and the next command. Not every file system has ACLs.
        with contextlib.suppress(OSError):
            os.setxattr(folder, "system.posix_acl_default", self._acl)
        return True


def _allowed() -> int:
    """Folders and files that the kernel lets a user watch. See inotify(7), max_user_watches."""
    try:
        return int(Path("/proc/sys/fs/inotify/max_user_watches").read_text())
    except (OSError, ValueError):
        return 8_192


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


@contextlib.contextmanager
def _opened(name: str, folder: int) -> Iterator[int]:
    inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
    try:
        yield inner
    finally:
        os.close(inner)


def _default_acl(uid: int) -> bytes:
    """`u::rwx u:<uid>:rwx g::r-x m::rwx o::r-x` as Linux keeps it: posix_acl_xattr.h, acl(5)."""
    nobody = 0xFFFFFFFF
    entries = [(0x01, 7, nobody), (0x02, 7, uid), (0x04, 5, nobody), (0x10, 7, nobody), (0x20, 5, nobody)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
