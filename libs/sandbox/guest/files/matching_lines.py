"""Finds the lines of a file that contain a text, or in which it begins (standard library only)."""

from __future__ import annotations

import codecs
import errno
import os
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from libs.sandbox.guest.files.disk import open_regular

__all__ = ["Finds", "finds_of", "matching_lines"]

_BINARY: Final = b"[a binary file matches]"
_MOST_BINARY: Final = 64 * 1024 * 1024
"""Bytes of a binary file that are searched, so that large files leave time for the others."""
_BLOCK: Final = 1024 * 1024
_LONGEST_LINE: Final = 16 * _BLOCK
_WIDE: Final = {
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
"""Byte order mark, which is as long as a unit -> encoding. The first mark that fits counts."""

Find = Callable[[bytes, int], int]
"""Returns the place of the next match in the data from a place on, or -1."""


class Finds(NamedTuple):
    """Functions that find a text."""

    text: Find
    """In content with the line ends of a page."""
    wide: dict[bytes, Find]
    """Byte order mark -> function for a file that begins with the mark. The data begins with a whole unit."""
    more: int
    """Lines of the text behind its first."""


def finds_of(lines: list[str]) -> Finds:
    """Return the functions that find lines that follow each other."""
    ends = ("\n", "\r\n", "\r") if len(lines) > 1 else ("\n",)
    spellings = [end.join(lines) for end in ends]
    wide = {
        mark: _finder([each.encode(coding, "surrogatepass") for each in spellings], len(mark))
        for mark, coding in _WIDE.items()
    }
    text = spellings[0].encode("utf-8", "surrogateescape")
    return Finds(lambda data, place: data.find(text, place), wide, len(lines) - 1)


def _finder(words: list[bytes], unit: int) -> Find:
    """Return a function that returns the first place at which one of the words begins; -1 if there is none.

    `unit`: bytes of a unit. The end of one and the begin of the next are no match.

    `re` would take seconds to compile long words.
    """

    def first(word: bytes, data: bytes, place: int) -> int:
        while (place := data.find(word, place)) % unit and place >= 0:
            place += 1
        return place

    def find(data: bytes, place: int) -> int:
        places = (first(word, data, place) for word in words)
        return min((each for each in places if each >= 0), default=-1)

    return find


def _shown(data: bytes, *, whole: bool) -> bytes:
    """Return content with the line ends of a page: see `text_files.read_page`.

    Args:
        whole: whether a carriage return at the end is a line end. Otherwise a line feed may follow.
    """
    if b"\r" not in data:
        return data
    last = b"" if whole or not data.endswith(b"\r") else b"\r"
    return data.removesuffix(last).replace(b"\r\n", b"\n").replace(b"\r", b"\n") + last


def matching_lines(path: str, finds: Finds, late: Callable[[], bool]) -> Iterator[tuple[int, bytes]]:
    """Yield number and content of each line in which the text begins. Lines are those of a page.

    From the first block with a NUL byte on, and in UTF-16 and UTF-32, only the first match is yielded, with
    `_BINARY` as content.

    Raises:
        OSError: the file cannot be read, is binary and too large, or has a line of over 16 MB.
    """
    with open_regular(path) as file:
        head = os.pread(file, 4, 0)
        mark = next((each for each in _WIDE if head.startswith(each)), b"")
        wide = finds.wide.get(mark)
        find = wide or finds.text
        number = 1
        rest = b""
        binary = wide is not None
        while not late():
            block = os.read(file, _BLOCK)
            data = rest + block
            if not wide:
                data = _shown(data, whole=not block)
            binary = binary or b"\0" in block
            if binary:
                if (found := find(data, 0)) >= 0:
                    yield number + _line_feeds(data[:found], mark), _BINARY
                if found >= 0 or not block:
                    return
                if os.lseek(file, 0, os.SEEK_CUR) > _MOST_BINARY:
                    raise OSError(errno.EFBIG, "File too large", path)
                # The text may continue in the next block. In a wide unit, 0x0a may also be a part.
                line = 0 if finds.more or wide else data.rfind(b"\n") + 1
                cut = max(line, len(data) - _BLOCK)
                cut -= cut % len(mark) if wide else 0
                number += _line_feeds(data[:cut], mark)
                rest = data[cut:]
                continue
            if len(data) > _LONGEST_LINE:
                raise OSError(errno.EFBIG, "File too large", path)
            # Search whole lines. The last line may continue in the next block, and so may a text that begins
            # in the lines before.
            whole = cut = data.rfind(b"\n") + 1 if block else len(data)
            for _ in range(finds.more if block else 0):
                cut = data.rfind(b"\n", 0, max(cut - 1, 0)) + 1
            lines, rest = data[:whole], data[cut:]
            place = 0  # begin of the line with the current number
            while 0 <= (found := find(lines, place)) < cut:
                begin = lines.rfind(b"\n", place, found) + 1 or place
                end = lines.find(b"\n", found)
                number += lines.count(b"\n", place, begin)
                place = begin
                yield number, lines[begin : end if end >= 0 else None]
                if end < 0:
                    break
                number += 1
                place = end + 1
            number += lines.count(b"\n", place, cut)
            if not block:
                return


def _line_feeds(data: bytes, mark: bytes) -> int:
    """Return the number of line feeds. `mark`: the byte order mark of the file, or nothing."""
    return data.decode(_WIDE[mark], "replace").count("\n") if mark in _WIDE else data.count(b"\n")
