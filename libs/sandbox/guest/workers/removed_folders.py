"""Tells whether the workspace, or another mounted folder, was removed on the host (standard library only).

A mount keeps the removed folder, and the kernel lists the folder as empty.
"""

from __future__ import annotations

import os

__all__ = ["REMOVED", "is_removed", "removed_above", "workspace_is_removed"]

_WORKSPACE = "/proc/self/cwd"
"""Unlike `.`, this path needs no permission, which a command can take away with chmod."""
_COUNTS_LINKS = os.stat(_WORKSPACE).st_nlink > 0 or os.readlink(_WORKSPACE).endswith(" (deleted)")
"""Whether the workspace's file system counts the links of a folder: 0 then means that it was removed. The
kernel marks the path of a folder that was removed before this start: see proc(5).

The supervisor asks when the sandbox starts. Workers that are forked later inherit the answer, because the
folder may be removed before a worker begins."""
_MOUNTS = "/proc/self/mountinfo"
REMOVED = "the folder was removed on the host: put it back there"
"""The error of a folder that is listed or searched, and of a path in the folder."""


def workspace_is_removed() -> bool:
    """Return whether the workspace was removed. False: its file system does not count links."""
    return _COUNTS_LINKS and os.stat(_WORKSPACE).st_nlink == 0


def is_removed(folder: str) -> bool:
    """Return whether the folder is a mounted one that was removed. False: this cannot be known."""
    try:
        if os.stat(folder).st_nlink:
            return False
        with open(_MOUNTS, "rb") as mounts:
            rows = [line.split(b" ") for line in mounts]
    except OSError:
        return False
    place = os.fsencode(os.path.realpath(folder))
    # Columns 4 and 5 are root and mount point: see proc(5).
    return any(row[3].endswith(b"//deleted") and _decoded(row[4]) == place for row in rows)


def removed_above(path: str) -> str | None:
    """Return the nearest removed mount above a path. None: there is none, or this cannot be known."""
    folder = os.path.dirname(path.rstrip("/"))
    while folder.strip("/"):
        if is_removed(folder):
            return folder
        folder = os.path.dirname(folder)
    return None


def _decoded(path: bytes) -> bytes:
    """Return a path in which the kernel has escaped white space and backslashes."""
    return path.decode("unicode_escape").encode("latin-1")
