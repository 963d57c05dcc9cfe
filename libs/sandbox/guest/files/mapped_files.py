"""Finds the files that programs change through memory (standard library only)."""

from __future__ import annotations

import contextlib
import os
import re
from typing import Final

__all__ = ["mapped_to_write"]

_SHARED: Final = re.compile(rb"^\S+ .w.s \S+ \S+ ([1-9][0-9]*)", re.MULTILINE)
"""A mapping that is written to its file, with the inode: see proc(5)."""


def mapped_to_write() -> set[int]:
    """Return the inodes of the files that programs have in their memory to change them.

    Only the first change of a part sets the times of the file, until the kernel has written the part to the
    disk. That may take half a minute, and a tmpfs has no disk: see mmap(2).
    """
    found: set[int] = set()
    for name in os.listdir("/proc"):
        if name.isdecimal():
            # Another user's program, or one that has just ended.
            with contextlib.suppress(OSError), open(f"/proc/{name}/maps", "rb") as maps:
                found.update(map(int, _SHARED.findall(maps.read())))
    return found
