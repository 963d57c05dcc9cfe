"""File name patterns as the file tools know them (standard library only).

`*.csv` matches the name at any depth. A pattern with a slash matches the path below the search root, where
`**` stands for any number of folders; a leading slash anchors it there too. `{a,b}` is either. A name that
begins with a dot is matched only by a pattern that does.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["PatternError", "compile_pattern"]

_MOST_ALTERNATIVES: Final = 1000


class PatternError(ValueError):
    """The pattern cannot be used; the message says why."""


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """A regular expression for paths relative to the search root.

    Raises:
        PatternError: the pattern is empty, climbs with `..`, or its braces stand for too many patterns.
    """
    if not pattern.strip("/"):
        raise PatternError("the pattern is empty")
    if ".." in pattern.split("/"):
        raise PatternError("a pattern may not contain '..'")
    alternatives = [_path_regex(item) for item in _expand(pattern)]
    return re.compile("|".join(alternatives), re.DOTALL)


def _expand(pattern: str) -> list[str]:
    """Every pattern that the braces stand for."""
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        item = waiting.pop()
        group = _first_group(item)
        if group is None:
            done.append(item)
        else:
            start, end, parts = group
            waiting += [item[:start] + part + item[end:] for part in reversed(parts)]
        if len(done) + len(waiting) > _MOST_ALTERNATIVES:
            raise PatternError(f"the braces stand for more than {_MOST_ALTERNATIVES} patterns")
    return done


def _first_group(text: str) -> tuple[int, int, list[str]] | None:
    """The first innermost `{a,b}`: where it begins and ends, and its parts. `{a}` is no group."""
    for match in re.finditer(r"\{([^{}]*,[^{}]*)\}", text):
        return match.start(), match.end(), match[1].split(",")
    return None


def _path_regex(pattern: str) -> str:
    segments = [segment for segment in pattern.split("/") if segment]
    if pattern.endswith("/") and segments[-1] != "**":
        return r"(?!)"  # only folders end in a slash, and only files are found
    if "/" not in pattern:
        return rf"\A(?:.*/)?{_segment_regex(pattern)}\Z"
    regex = r"\A"
    for index, segment in enumerate(segments):
        last = index == len(segments) - 1
        if segment == "**":
            regex += r"(?:(?!\.)[^/]+/)*"
            if last:
                regex += r"(?!\.)[^/]+"
        else:
            regex += _segment_regex(segment) + ("" if last else "/")
    return regex + r"\Z"


def _segment_regex(segment: str) -> str:
    regex = "" if segment.startswith(".") else r"(?!\.)"
    index = 0
    while index < len(segment):
        char = segment[index]
        index += 1
        if char == "*":
            regex += "[^/]*"
        elif char == "?":
            regex += "[^/]"
        elif char == "[" and (end := segment.find("]", index + 1 + (segment[index : index + 1] in "!^"))) > 0:
            body = segment[index:end]
            negated = body[0] in "!^"
            members = re.sub(r"([\\\[\]^&~|])", r"\\\1", body[1:] if negated else body)
            regex += f"(?!/)[{'^' * negated}{members}]"
            index = end + 1
        else:
            regex += re.escape(char)
    return regex
