r"""Replaces text in a file whose line ends are not those of a page (standard library only).

A page shows each `\r\n`, `\r` and `\n` as `\n`. So `\n` in the text that is to be replaced stands for each of
them, and occurrences are counted as they are shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Final

__all__ = ["TooLong", "replaced"]


_END: Final = re.compile(rb"\r\n?|\n")


class TooLong(ValueError):
    """The result is longer than allowed."""


def replaced(content: bytes, old: bytes, new: bytes, *, everywhere: bool, most: int) -> tuple[int, bytes]:
    r"""Replace `old` by `new`. Return the number of occurrences and the result.

    If there are several and not all are to be replaced, nothing is, also if they overlap. Line ends outside
    the occurrences, and of the lines that `old` and `new` begin or end with alike, stay as they are. A line
    of `new` gets the line end of the line that it replaces. A further line gets the line end beside it. If a
    deletion brings a lone `\r` before a `\n`, a `\r` is added, so that they stay two line ends.

    If `old` holds `\r` and occurs exactly, it is replaced exactly. If it does not occur exactly, its line
    ends stand for any. If only `new` holds `\r`, it is written exactly.

    Raises:
        TooLong: the result has more than `most` bytes.
    """
    if b"\r" in old:
        if old in content:
            return _simple(content, old, new, everywhere, most)
        old, new = _shown(old), _shown(new)
    if b"\r" not in content or b"\n" not in old + new:
        return _simple(content, old, new, everywhere, most, apart=not new and b"\r" in content)
    ends = _only_end(content)
    if ends:
        given = new if b"\r" in new else new.replace(b"\n", ends)
        return _simple(content, old.replace(b"\n", ends), given, everywhere, most)
    shown = _shown(content)
    count = _count(shown, old, everywhere)
    if not count or (count > 1 and not everywhere):
        return count, content
    before = _alike(old, new)
    after = _alike(old[before:][::-1], new[before:][::-1])
    lines = new[before : len(new) - after].split(b"\n")
    pieces: list[bytes] = []
    beside = _EndsBeside(content)
    size = done = 0
    byte = b""  # the last of the result
    for begin, end in _places(content, shown, old):
        first, last, given = begin, end, new
        if b"\r" not in new:
            first = _forward(content, begin, before)
            last = _forward(content, first, len(old) - before - after)
            given = _joined(lines, content, first, last, beside)
            # Otherwise a lone `\r` and a `\n` beside it would become one line end.
            if first > done:
                if byte == b"\r" and content.startswith(b"\n", done):
                    pieces.append(b"\r")
                    size += 1
                byte = content[first - 1 : first]
            feed = content.startswith(b"\n", last)
            if byte == b"\r" and given.startswith(b"\n"):
                given = b"\r" + given
            if given.endswith(b"\r") and feed:
                given += b"\n"
            byte = given[-1:] or byte
        pieces += content[done:first], given
        size += first - done + len(given)
        done = last
        if size > most:
            raise TooLong
    if byte == b"\r" and content.startswith(b"\n", done):
        pieces.append(b"\r")
        size += 1
    pieces.append(content[done:])
    if size + len(pieces[-1]) > most:
        raise TooLong
    return count, b"".join(pieces)


def _simple(
    content: bytes, old: bytes, new: bytes, everywhere: bool, most: int, *, apart: bool = False
) -> tuple[int, bytes]:
    count = _count(content, old, everywhere)
    if not count or (count > 1 and not everywhere):
        return count, content
    if len(content) + count * (len(new) - len(old)) > most:
        raise TooLong
    return count, (_kept_apart(content, old) if apart else content).replace(old, new)


def _kept_apart(content: bytes, old: bytes) -> bytes:
    r"""Add a `\r` to each lone `\r` that would stand before a `\n` after `old` is deleted."""
    return re.sub(rb"\r(?=(?:%b)++\n)" % re.escape(old), b"\r\r", content)


def _count(content: bytes, old: bytes, everywhere: bool) -> int:
    """Return the number of occurrences; if not all are to be replaced, also of a second that overlaps."""
    count = content.count(old)
    overlaps = count == 1 and not everywhere and content.find(old, content.find(old) + 1) >= 0
    return 2 if overlaps else count


def _shown(content: bytes) -> bytes:
    return content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _only_end(content: bytes) -> bytes:
    """Return the line end of a content that has a carriage return, or nothing if it has several kinds."""
    pairs, returns, feeds = content.count(b"\r\n"), content.count(b"\r"), content.count(b"\n")
    if pairs == returns == feeds:
        return b"\r\n"
    return b"" if feeds else b"\r"


def _places(content: bytes, shown: bytes, old: bytes) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each occurrence in the content."""
    at = place = 0  # the same place in what is shown and in the content
    while (found := shown.find(old, at)) >= 0:
        begin = _forward(content, place, found - at)
        at = found + len(old)
        place = _forward(content, begin, len(old))
        yield begin, place


def _forward(content: bytes, place: int, shown: int) -> int:
    """Return the place that is a number of shown bytes further. It is never within a line end."""
    while shown:
        end = place + shown
        if content[end - 1 : end + 1] == b"\r\n":
            end += 1
        pairs = content.count(b"\r\n", place, end)
        shown -= end - place - pairs
        place = end
    return place


def _joined(lines: list[bytes], content: bytes, begin: int, end: int, beside: _EndsBeside) -> bytes:
    """Join lines with the line ends between two places."""
    joined = lines[0]
    if len(lines) > 1:
        ends = _END.findall(content, begin, end) or [beside.find(end)]
        for number, line in enumerate(lines[1:]):
            joined += ends[min(number, len(ends) - 1)] + line
    return joined


class _EndsBeside:
    """Finds the line end after a place, or else the last line end of the content, in linear time.

    The content has a line end. No place is before an earlier place.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._after = _END.search(content)

    def find(self, place: int) -> bytes:
        if self._after and self._after.start() < place:
            self._after = _END.search(self._content, place)
        return self._after[0] if self._after else self._last

    @cached_property
    def _last(self) -> bytes:
        place = max(self._content.rfind(b"\r"), self._content.rfind(b"\n"))
        found: list[bytes] = _END.findall(self._content, max(place - 1, 0))
        return found[-1]


def _alike(one: bytes, other: bytes) -> int:
    """Return how many bytes two texts begin with alike."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
