"""Names the spill files of long outputs, and removes old ones (standard library only)."""

from __future__ import annotations

import os
import time

__all__ = ["MOST_SPILLED", "SPILL_LIMIT", "make_room", "spill_name"]

SPILL_LIMIT = 64 * 1024 * 1024
"""Bytes of one output that are kept on disk."""
MOST_SPILLED = 1024 * 1024 * 1024
"""Bytes of all spill files of a workspace. The oldest are removed first."""
_BLOCK = 512


def spill_name() -> str:
    """Return a name for a spill file. Names sort by time."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(3).hex()}"


def make_room(folder: str, most: int = MOST_SPILLED) -> None:
    """Remove the oldest spill files, so that all together with the next one take at most `most` bytes.

    Only regular files that are called like a `spill_name` are removed.

    Raises:
        OSError: the folder does not exist or is a link.
    """
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        sizes: dict[str, int] = {}
        with os.scandir(place) as entries:
            for entry in entries:
                stem = entry.name.removesuffix(".txt").removesuffix(".stderr")
                spilled = len(stem) == len(spill_name()) and (stem[:8] + stem[9:15]).isdigit()
                if spilled and entry.name.endswith(".txt") and entry.is_file(follow_symlinks=False):
                    sizes[entry.name] = entry.stat(follow_symlinks=False).st_blocks * _BLOCK
        left = sum(sizes.values())
        for name in sorted(sizes):
            if left + SPILL_LIMIT <= most:
                break
            os.unlink(name, dir_fd=place)
            left -= sizes[name]
    finally:
        os.close(place)
