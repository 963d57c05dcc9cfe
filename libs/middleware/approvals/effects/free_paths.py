"""Decide which changes of a call need no approval."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from libs.middleware.approvals.rules import contains, matches

if TYPE_CHECKING:
    from libs.workspace import Entry
    from libs.workspace.history import IsFree

__all__ = ["free_changes"]

_SET_BITS: Final = stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX


def free_changes(patterns: Sequence[str]) -> IsFree:
    """Return a function that tells whether a change needs no approval.

    Free is to make and to change files that a pattern covers, and to make the folders that they need. Never
    free is to delete, to change the permissions of a folder, to set the bits setuid, setgid or sticky, and
    what is no regular file.
    """

    def is_free(path: str, before: Entry | None, after: Entry | None) -> bool:
        if after is None or after.mode & _SET_BITS & ~(before.mode if before else 0):
            return False
        if after.kind == "file" and (before is None or before.kind == "file"):
            return any(matches(path, pattern) for pattern in patterns)
        if after.kind == "dir" and before is None:
            return any(matches(path, pattern) or contains(path, pattern) for pattern in patterns)
        return False

    return is_free
