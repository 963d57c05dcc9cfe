"""The files that long outputs are kept in: their names, and room for the next one (standard library only)."""

from __future__ import annotations

import posix as os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

__all__ = ["MOST_SPILLED", "SPILL_LIMIT", "make_room", "spill_name"]

SPILL_LIMIT: Final = 64 * 1024 * 1024
"""Bytes of one output that are kept on disk."""
MOST_SPILLED: Final = 1024 * 1024 * 1024
"""Bytes on disk that all outputs of a workspace may take; then the oldest go."""
_BLOCK: Final = 512


def spill_name() -> str:
    """A name for a spill file that tells when it was made: the later, the further behind in order."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(3).hex()}"


def _is_spill_name(name: str) -> bool:
    stem = name.removesuffix(".txt").removesuffix(".stderr")
    date, first, rest = stem.partition("-")
    clock, second, end = rest.partition("-")
    shape = (len(date), first, len(clock), second, len(end)) == (8, "-", 6, "-", 6)
    return shape and name.endswith(".txt") and date.isdigit() and clock.isdigit()


def make_room(folder: str, most: int = MOST_SPILLED) -> None:
    """Remove the oldest outputs, so that with the next one all take at most `most` bytes.

    Only regular files of a name that `spill_name` makes: whatever else lies there is somebody's.

    Raises:
        OSError: the folder is none, or a link to one.
    """
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        sizes: dict[str, int] = {}
        with os.scandir(place) as entries:
            for entry in entries:
                if _is_spill_name(entry.name) and entry.is_file(follow_symlinks=False):
                    sizes[entry.name] = entry.stat(follow_symlinks=False).st_blocks * _BLOCK
        left = sum(sizes.values())
        for name in sorted(sizes):
            if left + SPILL_LIMIT <= most:
                break
            os.unlink(name, dir_fd=place)
            left -= sizes[name]
    finally:
        os.close(place)
