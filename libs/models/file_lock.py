"""A lock that holds between processes and ends with the process that has it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    def _take(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _take(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


__all__ = ["take_lock"]


@contextmanager
def take_lock(path: Path) -> Iterator[bool]:
    """Take the lock at once, or yield False where another has it. The file stays: removing it would race."""
    with path.open("ab") as file:
        try:
            _take(file.fileno())
        except (BlockingIOError, PermissionError):
            mine = False
        else:
            mine = True
        yield mine
