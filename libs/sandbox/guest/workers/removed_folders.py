"""Tells whether the workspace, or another mounted folder, was removed on the host (standard library only).

A mount keeps the removed folder, and the kernel lists the folder as empty.
"""

from __future__ import annotations

import os

__all__ = ["REMOVED", "WORKSPACE", "is_removed"]

WORKSPACE = "/proc/self/cwd"
"""Unlike `.`, this path needs no permission, which a command can take away with chmod."""
_COUNTS_LINKS = os.stat(WORKSPACE).st_nlink > 0
"""Whether this file system counts the links of a folder: 0 then means that the folder was removed.

The supervisor asks when the sandbox starts. Its workers inherit the answer: the folder may be removed before
a worker begins."""
REMOVED = "the folder was removed on the host: put it back there"
"""The error of a folder that is listed or searched."""


def is_removed(folder: str) -> bool:
    """Return whether the folder at a path was removed on the host. False: there is no such path."""
    try:
        return _COUNTS_LINKS and os.stat(folder).st_nlink == 0
    except FileNotFoundError:
        return False
