"""What was made in folders, or moved into them, as the kernel tells it: see inotify(7). Linux only."""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["Inotify", "allowed"]

_EVENT: Final = struct.Struct("iIII")
_CREATED, _MOVED_IN, _OVERFLOW, _IGNORED = 0x100, 0x80, 0x4000, 0x8000
_FOLDERS_ONLY: Final = 0x01000000
_MOST_READ: Final = 8 * 1024 * 1024
"""Bytes that are read at once: more than the kernel keeps, where nobody has told it to keep more."""
_libc = ctypes.CDLL(None, use_errno=True)


class Inotify:
    """One of the kernel's instances, of which it gives a user few: max_user_instances."""

    def __init__(self) -> None:
        """Get one.

        Raises:
            OSError: the kernel gives none.
        """
        self.number = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.number < 0:
            raise OSError(code := ctypes.get_errno(), f"inotify_init1: {os.strerror(code)}")

    def close(self) -> None:
        """Give it back."""
        number, self.number = self.number, -1  # it may soon be another file's
        if number >= 0:
            os.close(number)

    def watch(self, folder: int) -> int:
        """Watch an open folder; the number of the watch, the same as before for the same folder.

        Negative where the kernel lets no more be watched.
        """
        here = os.fsencode(f"/proc/self/fd/{folder}")
        return int(_libc.inotify_add_watch(self.number, here, _CREATED | _MOVED_IN | _FOLDERS_ONLY))

    def waiting(self) -> int:
        """Bytes of events that wait to be read. Never blocks; 0 where it is closed."""
        try:
            return int.from_bytes(fcntl.ioctl(self.number, termios.FIONREAD, bytes(4)), "little")
        except (OSError, ValueError):  # closed
            return 0

    def events(self) -> Iterator[tuple[int, str | None]]:
        """What waits by now, and not what comes meanwhile: a watch and a name, the watch -1 for lost events.

        The name is None where the folder is gone, and the kernel's watch with it.
        """
        # All in one piece: between two reads, other threads of a busy program would have their turns.
        size = min(self.waiting(), _MOST_READ)
        data = os.read(self.number, size) if size else b""
        offset = 0
        while offset < len(data):
            watch, mask, _, length = _EVENT.unpack_from(data, offset)
            name = data[offset + _EVENT.size : offset + _EVENT.size + length].rstrip(b"\0")
            offset += _EVENT.size + length
            if mask & _OVERFLOW:
                yield -1, None
            else:
                yield watch, None if mask & _IGNORED else os.fsdecode(name)


def allowed(what: str, otherwise: int) -> int:
    """How much of it the kernel lets a user have, such as `max_user_watches`."""
    try:
        return int(Path("/proc/sys/fs/inotify", what).read_text())
    except (OSError, ValueError):
        return otherwise
