"""Match the path of a file tool with the pattern of a rule. Nothing is looked up: links are not followed."""

from __future__ import annotations

import posixpath
import re
from itertools import takewhile
from pathlib import PurePosixPath

from wcmatch import glob

__all__ = ["contains", "is_clear", "matches", "may_contain"]

_FLAGS = glob.GLOBSTAR | glob.DOTGLOB | glob.FORCEUNIX | glob.CASE
_SHORT = re.compile(r"^/+(?=(?:data|scripts|results)(?:/|$))")
"""/data is a link to /workspace/data, and so on."""
_GLOB = re.compile(r"[*?\[\\]")


def is_clear(path: str) -> bool:
    """Return whether the path surely names the place that its text says, as far as no link is there."""
    return path.startswith("/") and ".." not in path.split("/") and "\0" not in path


def matches(path: str, pattern: str) -> bool:
    """Return whether a pattern covers a path: `*` stands for a name, `**` for any number of folders."""
    return any(glob.globmatch(place, _whole(pattern), flags=_FLAGS) for place in _places(path))


def contains(path: str, pattern: str) -> bool:
    """Return whether a folder surely holds all that a pattern covers."""
    return any(_base(pattern).is_relative_to(place) for place in _places(path))


def may_contain(path: str, pattern: str) -> bool:
    """Return whether a folder of this path may hold something that a pattern covers."""
    base, parts = _base(pattern), PurePosixPath(_whole(pattern)).parts
    return contains(path, pattern) or any(
        ("**" in parts or len(parts) > len(folder.parts)) and folder.is_relative_to(base)
        for folder in map(PurePosixPath, _places(path))
    )


def _places(path: str) -> set[str]:
    """Return the places that a path may mean: `..` is read before and after /data is followed as a link."""
    by_text = posixpath.normpath(f"/{path.lstrip('/')}")
    return {_whole(by_text), posixpath.normpath(_whole(path))}


def _whole(path: str) -> str:
    return _SHORT.sub("/workspace/", f"/{path.lstrip('/')}")


def _base(pattern: str) -> PurePosixPath:
    """Return the folders of a pattern before the first name with a wildcard."""
    return PurePosixPath(
        *takewhile(lambda name: not _GLOB.search(name), PurePosixPath(_whole(pattern)).parts)
    )
