"""Matches file names with the patterns of the file tools (standard library only).

`*.csv` matches the name at any depth. A pattern with a slash matches the path below the search root, where
`**` matches any number of folders. A leading slash anchors a pattern there, too, and so does an absolute path
of the search root or of a folder in it. `{a,b}` matches either. A name that begins with a dot needs a pattern
that begins with a dot. With `hidden`, `**` also matches such folders. Folders before the first wildcard may
be links; no other link to a folder is followed.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Callable
from typing import Final, NamedTuple

__all__ = ["PatternError", "Search", "compile_pattern"]

_MOST_ALTERNATIVES: Final = 1000
_MOST_PATTERN: Final = 10_000
"""Characters of a pattern."""
_MOST_EXPANDED: Final = 100_000
"""Characters of all patterns that a pattern with braces stands for."""
_WILDCARDS: Final = frozenset("*?[")
_UNKNOWN: Final = {
    r"\\[*?\[\]{}]": "a backslash escapes nothing: write '?' for the character",
    r"\{-?\w+\.\.-?\w+(\.\.-?\d+)?\}": "braces hold no range: write {1,2,3} or [1-3]. For a '{', write '?'",
    r"\[:\w+:\]": "brackets hold no class: write [0-9] or [A-Za-z]",
}
"""Parts that other tools understand, and what to write. As names, they would find nothing in silence."""
_Name = Callable[[str], object]
"""Matches one name of a path."""


class PatternError(ValueError):
    """The pattern cannot be used; the message says why."""


class Search(NamedTuple):
    """Which files below a folder match."""

    matches: Callable[[str], bool]
    """Takes a path relative to the folder."""
    depth: int | None
    """Most names of a path that matches. None: any number."""


def compile_pattern(pattern: str, root: str = "/", *, hidden: bool = False) -> dict[str, Search]:
    """Return the folders in which files of a pattern can lie, each with its search. One may lie in another.

    Args:
        root: the absolute path of the search root.
        hidden: whether `**` also matches folders whose names begin with a dot.

    Raises:
        PatternError: the pattern is empty or too long, contains `..` or a NUL character, begins with `!`,
            ends with `/` and no `**` before it, has a part of _UNKNOWN, names only files outside the search
            root, or its braces expand to too much.
    """
    if len(pattern) > _MOST_PATTERN:
        raise PatternError(
            f"the pattern has {len(pattern):,} characters, and {_MOST_PATTERN:,} are allowed: use wildcards, "
            "or several searches"
        )
    if "\0" in pattern:
        raise PatternError("a pattern cannot hold a NUL character")
    if pattern.startswith("!"):
        # In other tools this excludes files. Taken as a name, the pattern would find nothing in silence.
        raise PatternError("a pattern cannot exclude files: use a command. In a name, write '?' for the '!'")
    for unknown, instead in _UNKNOWN.items():
        if re.search(unknown, pattern, re.ASCII):
            raise PatternError(instead)
    found: dict[str, list[tuple[Callable[[list[str]], object], int | None]]] = {}
    for item in _expand(pattern):
        start, below = _below(item, root.rstrip("/"))
        names = [name for name in below.split("/") if name not in ("", ".")]
        if not names:
            continue
        if ".." in names:
            raise PatternError("a pattern may not contain '..'")
        literal = _literal(names)
        start = "/".join((start, *names[:literal])) if literal else start or root
        found.setdefault(start, []).append(_path(below, names[literal:], hidden=hidden))
    if not found:
        raise PatternError("the pattern is empty")
    return {start: _any(items) for start, items in found.items()}


def _any(items: list[tuple[Callable[[list[str]], object], int | None]]) -> Search:
    depths = [depth for _, depth in items]
    deepest = None if None in depths else max(depth for depth in depths if depth is not None)
    return Search(lambda path: any(matches(path.split("/")) for matches, _ in items), deepest)


def _literal(names: list[str]) -> int:
    """Return the number of names before the first with a wildcard, or before the last."""
    return next((i for i, name in enumerate(names) if _WILDCARDS & set(name)), len(names) - 1)


def _below(pattern: str, root: str) -> tuple[str, str]:
    """Return the folder in which a pattern without braces begins, and the pattern without that folder.

    Raises:
        PatternError: the pattern begins with the path of another folder, in which there is nothing to search.
    """
    if not root or not pattern.startswith("/"):
        return root, pattern
    if pattern.startswith(f"{root}/"):
        return root, pattern[len(root) :]
    parts = pattern.split("/")
    literal = _literal(parts)
    folder, rest = "/".join(parts[:literal]), "/".join(parts[literal:])
    if not folder or os.path.isdir(root + folder) or not os.path.isdir(folder):
        return root, pattern
    real, top = os.path.realpath(folder), os.path.realpath(root)
    if (real + "/").startswith(top.rstrip("/") + "/"):
        return root, f"{real[len(top.rstrip('/')) :]}/{rest}"
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


def _path(
    pattern: str, segments: list[str], *, hidden: bool
) -> tuple[Callable[[list[str]], object], int | None]:
    """Return a function that matches the names of a path, and the most names that it matches.

    Args:
        pattern: a pattern without braces.
        segments: its names behind the folder in which the search begins.
        hidden: see `compile_pattern`.

    Raises:
        PatternError: the pattern ends with `/`.
    """
    if pattern.endswith("/") and segments[-1:] != ["**"]:
        raise PatternError("a pattern that ends with '/' names folders, and only files are found: add '**'")
    if "/" not in pattern and pattern != "**":
        name = _name(pattern)
        return lambda path: name(path[-1]), None
    names = [None if segment == "**" else _name(segment) for segment in segments]
    depth = None if None in names else len(names)
    if names[-1] is None:  # a final `**` matches every file below
        names.append(_name("*"))
    return lambda path: _matches(names, path, hidden=hidden), depth


def _matches(names: list[_Name | None], path: list[str], *, hidden: bool) -> bool:
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
        elif retry and (hidden or not path[retry[1]].startswith(".")):
            at, place = retry[0], retry[1] + 1
            retry = at, place
        else:
            return False
    return at == len(names)


def _nothing(_: object) -> bool:
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
