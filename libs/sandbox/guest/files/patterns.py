"""Matches file names with the patterns of the file tools (standard library only).

`*.csv` matches the name at any depth. A pattern with a slash matches the path below the search root, where
`**` matches any number of folders. A leading slash anchors a pattern there, too, and so does an absolute path
of the search root or of a folder in it. `{a,b}` matches either. A name that begins with a dot needs a pattern
that begins with a dot.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Callable
from typing import Final

__all__ = ["PatternError", "compile_pattern"]

_MOST_ALTERNATIVES: Final = 1000
_MOST_PATTERN: Final = 10_000
"""Characters of a pattern."""
_MOST_EXPANDED: Final = 100_000
"""Characters of all patterns that a pattern with braces stands for."""
_WILDCARDS: Final = frozenset("*?[{")
_Name = Callable[[str], object]
"""Matches one name of a path."""


class PatternError(ValueError):
    """The pattern cannot be used; the message says why."""


def compile_pattern(pattern: str, root: str = "/") -> Callable[[str], bool]:
    """Return a function that matches paths relative to the search root.

    Args:
        root: the absolute path of the search root.

    Raises:
        PatternError: the pattern is empty or too long, contains `..` or a NUL character, names only files
            outside the search root, or its braces expand to too much.
    """
    if len(pattern) > _MOST_PATTERN:
        raise PatternError(
            f"the pattern has {len(pattern):,} characters, and {_MOST_PATTERN:,} are allowed: use wildcards, "
            "or several searches"
        )
    if "\0" in pattern:
        raise PatternError("a pattern cannot hold a NUL character")
    pattern = _below(pattern, root.rstrip("/"))
    if not pattern.strip("/"):
        raise PatternError("the pattern is empty")
    if ".." in pattern.split("/"):
        raise PatternError("a pattern may not contain '..'")
    paths = [_path(item) for item in _expand(pattern)]
    return lambda path: any(matches(path.split("/")) for matches in paths)


def _below(pattern: str, root: str) -> str:
    """Return the pattern, without the path of the search root.

    Raises:
        PatternError: the pattern begins with the path of another folder, in which there is nothing to search.
    """
    if not root or not pattern.startswith("/"):
        return pattern
    if pattern.startswith(f"{root}/"):
        return pattern[len(root) :]
    parts = pattern.split("/")
    literal = next((i for i, part in enumerate(parts) if _WILDCARDS & set(part)), len(parts) - 1)
    folder, rest = "/".join(parts[:literal]), "/".join(parts[literal:])
    if not folder or os.path.isdir(root + folder) or not os.path.isdir(folder):
        return pattern
    real, top = os.path.realpath(folder), os.path.realpath(root)
    if (real + "/").startswith(top.rstrip("/") + "/"):
        return f"{real[len(top.rstrip('/')) :]}/{rest}"
    raise PatternError(
        f"the pattern names files below {folder}, and only {root} is searched: search in {folder}"
    )


def _expand(pattern: str) -> list[str]:
    """Expand the braces of a pattern."""
    done: list[str] = []
    waiting = [pattern]
    size = len(pattern)
    while waiting:
        item = waiting.pop()
        group = re.search(r"\{([^{},]*,[^{}]*)\}", item)  # the first innermost; `{a}` is not a group
        if group is None:
            done.append(item)
        else:
            before, after = item[: group.start()], item[group.end() :]
            parts = group[1].split(",")
            size += len(parts) * (len(before) + len(after)) + len(group[1]) - len(item)
            if len(done) + len(waiting) + len(parts) > _MOST_ALTERNATIVES or size > _MOST_EXPANDED:
                raise PatternError(
                    f"the braces stand for more than {_MOST_ALTERNATIVES:,} patterns, or for more than "
                    f"{_MOST_EXPANDED:,} characters: use wildcards, or several searches"
                )
            waiting += [before + part + after for part in reversed(parts)]
    return done


def _path(pattern: str) -> Callable[[list[str]], object]:
    """Return a function that matches the names of a path with a pattern without braces."""
    segments = [segment for segment in pattern.split("/") if segment not in ("", ".")]
    if pattern.endswith("/") and segments[-1:] != ["**"]:
        return lambda _: False  # a trailing slash means a folder, and only files are found
    if "/" not in pattern and pattern != "**":
        name = _name(pattern)
        return lambda path: name(path[-1])
    names = [None if segment == "**" else _name(segment) for segment in segments]
    if names and names[-1] is None:  # a final `**` matches every file below
        names.append(_name("*"))
    return lambda path: _matches(names, path)


def _matches(names: list[_Name | None], path: list[str]) -> bool:
    """Match each name. None matches any number of folders: first none, then one more after each mismatch.

    Only the last None is tried again, because more folders for an earlier one would only leave less for the
    rest. So no pattern takes long.
    """
    at = place = 0
    retry: tuple[int, int] | None = None
    while place < len(path):
        name = names[at] if at < len(names) else _nothing
        if name is None:
            at += 1
            retry = at, place
        elif name(path[place]):
            at, place = at + 1, place + 1
        elif retry and not path[retry[1]].startswith("."):
            at, place = retry[0], retry[1] + 1
            retry = at, place
        else:
            return False
    return at == len(names)


def _nothing(_: str) -> bool:
    return False


def _name(segment: str) -> _Name:
    segment = segment.replace("[^", "[!")
    # `fnmatch` searches the whole rest for the end of each `[`. Behind the last `]` none has an end, so there
    # a character that no name holds stands for it.
    last = segment.rfind("]") + 1
    segment = segment[:last] + segment[last:].replace("[", "\0")
    matches = re.compile(fnmatch.translate(segment).replace("\0", r"\[")).match
    if segment.startswith("."):
        return matches
    return lambda name: not name.startswith(".") and matches(name)
