"""A lock between processes, which ends with the process that holds it."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["take_lock"]


@contextmanager
def take_lock(path: Path) -> Iterator[bool]:
    """Take the lock and yield True, or yield False if another process holds it. The file is never removed."""
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = True
        except BlockingIOError:
            free = False
        yield free
