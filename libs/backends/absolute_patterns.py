"""Tells when an absolute pattern may name files outside of the folder that was searched for it."""

from __future__ import annotations

import posixpath
from typing import Final

from deepagents.backends.protocol import GlobResult

from libs.sandbox import FOLDERS

__all__ = ["WILDCARDS", "may_name_another", "may_name_system"]

WILDCARDS: Final = frozenset("*?[{")


def may_name_another(pattern: str, found: GlobResult) -> bool:
    """Return whether a search in `/` may find files that a search in a folder has not found.

    A pattern such as `/usr/*.txt` is tried in the folder first, which may have a folder `usr` of its own. A
    pattern that begins with a wildcard is tried there only: in `/` it would walk the whole system.
    """
    if not pattern.startswith("/"):
        return False
    if found.error:
        return True
    return not (found.matches or found.truncated or WILDCARDS & set(pattern.split("/")[1]))


def may_name_system(pattern: str, *, failed: bool) -> bool:
    """Return whether a search in `/` may find files besides those that a search in `/workspace` finds.

    `failed`: whether the latter has failed, as for a pattern that names only a folder of the system.
    """
    if not pattern.startswith("/"):
        return False
    first = posixpath.normpath(pattern).lstrip("/").split("/")[0]
    return failed or not (WILDCARDS & set(first) or first in ("workspace", *FOLDERS))
