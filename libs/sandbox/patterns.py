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
    try:
        return re.compile("|".join(alternatives), re.DOTALL)
    except re.error as error:  # such as a range that runs backwards
        raise PatternError(f"the pattern cannot be used: {error}") from None


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


_FOLDERS: Final = r"(?:(?!\.)[^/]+/)*"


def _path_regex(pattern: str) -> str:
    """The regular expression of one pattern.

    Whatever follows a `*` or a `**` is looked for where it comes first, in an atomic group: a later place
    would only leave less for the rest. So no pattern can make the search go back and forth.
    """
    segments = [segment for segment in pattern.split("/") if segment]
    if pattern.endswith("/") and segments[-1] != "**":
        return r"(?!)"  # only folders end in a slash, and only files are found
    if "/" not in pattern and pattern != "**":
        return rf"\A(?:.*/)?{_segment_regex(pattern)}\Z"
    blocks: list[list[str]] = [[]]
    for segment in segments:
        if segment == "**":
            blocks.append([])
        else:
            blocks[-1].append(_segment_regex(segment))
    if not blocks[-1]:  # what ends in `**` stands for every file below
        blocks[-1] = [r"(?!\.)[^/]+"]
    first, *others = blocks
    if not others:
        return rf"\A{'/'.join(first)}\Z"
    regex = r"\A" + "".join(f"{segment}/" for segment in first)
    for block in others[:-1]:
        if block:
            regex += rf"(?>{_FOLDERS}?{'/'.join(block)}/)"
    return regex + rf"{_FOLDERS}{'/'.join(others[-1])}\Z"


def _segment_regex(segment: str) -> str:
    """The regular expression of a name: the parts between its stars, each where it comes first."""
    parts = [""]
    index = 0
    while index < len(segment):
        char = segment[index]
        index += 1
        if char == "*":
            if parts[-1] or len(parts) == 1:  # a run of stars is one
                parts.append("")
        elif char == "?":
            parts[-1] += "[^/]"
        elif char == "[" and (end := _end_of_class(segment, index)):
            body = segment[index:end]
            negated = body[0] in "!^"
            members = re.sub(r"([\\\[\]^&~|])", r"\\\1", body[1:] if negated else body)
            parts[-1] += f"(?!/)[{'^' * negated}{members}]"
            index = end + 1
        else:
            parts[-1] += re.escape(char)
    first, *others = parts
    regex = ("" if segment.startswith(".") else r"(?!\.)") + first
    for part in others[:-1]:
        regex += f"(?>[^/]*?{part})"
    return regex + ("[^/]*" + others[-1] if others else "")


def _end_of_class(segment: str, start: int) -> int | None:
    """Where the `]` of a class stands whose first member is at `start`; a `]` there is a member."""
    end = segment.find("]", start + 1 + (segment[start : start + 1] in "!^"))
    return end if end > 0 else None
