"""Tells whether the workspace folder was removed on the host (standard library only)."""

from __future__ import annotations

import os

__all__ = ["is_removed"]

_FOLDER = "/proc/self/cwd"
"""Unlike `.`, this path needs no permission, which a command can take away with chmod."""
_COUNTS_LINKS = os.stat(_FOLDER).st_nlink > 0
"""Whether this file system counts the links of a folder: 0 then means that the folder was removed.

The supervisor asks when the sandbox starts. Its workers inherit the answer: the folder may be removed before
a worker begins."""


def is_removed() -> bool:
    return _COUNTS_LINKS and os.stat(_FOLDER).st_nlink == 0
