"""Find files by name and lines by text, inside the sandbox (standard library only)."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from libs.sandbox.disk import NotRegular, open_regular
from libs.sandbox.patterns import compile_pattern

__all__ = ["glob", "grep"]

_MOST_FILES: Final = 10_000
"""Files that `glob` returns."""
_SECONDS: Final = 5.0
"""Seconds that one search looks around before it returns what it has."""
_NOT_SEARCHED: Final = frozenset({".git", ".output"})
"""Folders that `grep` leaves out below its root: packed objects, and spilled output of commands."""
_ENDLESS: Final = frozenset({"/proc", "/sys", "/dev"})
_MOST_LINE: Final = 4_000
"""Characters of a matching line that are returned."""
_MOST_FOUND: Final = 8 * 1024 * 1024
"""Bytes of matching lines that are returned."""
_BLOCK: Final = 1024 * 1024

Find = Callable[[bytes, int], int]
"""Where in the data the next match is, from a place on; -1: nowhere."""


class _Walk:
    """Every file below a folder; links to folders are not followed."""

    def __init__(self, root: str, *, skip: frozenset[str] = frozenset()) -> None:
        self.root = root
        self._skip = skip
        self._deadline = time.monotonic() + _SECONDS
        self.late = False
        """Whether the time was up before everything was seen."""
        self.unreadable = 0
        """Folders that could not be read."""

    def out_of_time(self) -> bool:
        self.late = self.late or time.monotonic() > self._deadline
        return self.late

    def __iter__(self) -> Iterator[str]:
        """Paths relative to the root, in the order of the tree."""
        waiting = [""]
        while waiting and not self.out_of_time():
            below = waiting.pop()
            folders: list[str] = []
            try:
                with os.scandir(os.path.join(self.root, below)) as entries:
                    listing = sorted(entries, key=lambda entry: entry.name)
            except OSError:
                self.unreadable += 1
                continue
            for entry in listing:
                relative = f"{below}/{entry.name}" if below else entry.name
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in self._skip and entry.path not in _ENDLESS:
                        folders.append(relative)
                    continue
                with contextlib.suppress(OSError):
                    if entry.is_file():
                        yield relative
            waiting += reversed(folders)


def glob(path: str, pattern: str) -> dict[str, Any]:
    """Files below `path` whose name or relative path matches.

    Raises:
        OSError: `path` is no folder that can be read.
        PatternError: the pattern cannot be used.
    """
    matches = compile_pattern(pattern).match
    os.close(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    walk = _Walk(path)
    found: list[str] = []
    for relative in walk:
        if matches(relative):
            if len(found) == _MOST_FILES:
                return {"paths": sorted(found), "cut": "budget"}
            found.append(os.path.join(path, relative))
    cut = "unreadable" if walk.unreadable else "budget" if walk.late else None
    return {"paths": sorted(found), "cut": cut}


def grep(path: str, text: str, pattern: str | None, most: int | None) -> dict[str, Any]:
    """Lines that hold `text`, taken literally. Several lines of text are alternatives, as for grep(1).

    Args:
        path: a file, or a folder to search.
        pattern: a file name pattern, relative to `path`.
        most: lines to return.

    Raises:
        OSError: `path` cannot be read.
        PatternError: the pattern cannot be used.
    """
    find = _finder([needle for needle in text.encode("utf-8", "surrogateescape").split(b"\n") if needle])
    matches = compile_pattern(pattern).match if pattern else None
    walk = _Walk(path, skip=_NOT_SEARCHED)
    files: Iterator[str] = iter(walk)
    if not os.path.isdir(path):
        with open_regular(path):
            files = iter([""])
    found: list[dict[str, Any]] = []
    size = 0
    for relative in files:
        if matches and relative and not matches(relative):
            continue
        shown = os.path.join(path, relative) if relative else path
        with contextlib.suppress(OSError, NotRegular):
            for number, line, begun, ended in _lines_with(shown, find, walk):
                if len(found) == most or size > _MOST_FOUND:
                    return {"matches": found, "cut": True}
                decoded = line.decode("utf-8", "replace")
                size += len(decoded)
                match: dict[str, Any] = {"path": shown, "line": number, "text": decoded[:_MOST_LINE]}
                # A secret may have been cut in two: see `libs.sandbox.redact.redacted_values`.
                if not begun:
                    match["cut_before"] = "text"
                if not ended or len(decoded) > _MOST_LINE:
                    match["cut_after"] = "text"
                found.append(match)
    return {"matches": found, "cut": walk.late}


def _finder(needles: list[bytes]) -> Find:
    """What finds the first of the needles, none of which has a line end, in data from a place on."""
    if len(needles) == 1:
        [needle] = needles
        return lambda data, place: data.find(needle, place)
    # Without any, a pattern that is found nowhere.
    search = re.compile(b"|".join(map(re.escape, needles)) or b"(?!)").search
    return lambda data, place: found.start() if (found := search(data, place)) else -1


def _lines_with(path: str, find: Find, walk: _Walk) -> Iterator[tuple[int, bytes, bool, bool]]:
    """Number and content of each matching line; nothing of a binary file.

    A line of over 16 MB comes in pieces: so whether the content begins where the line does, and ends there.
    """
    with open_regular(path) as file:
        number = 1
        rest = b""
        begun = True  # whether what comes next begins a line
        while not walk.out_of_time():
            block = os.read(file, _BLOCK)
            if b"\0" in block:
                return
            data = rest + block
            # Whole lines only; the last one may go on in the next block, but not without end.
            cut = len(data) if not block or len(data) > 16 * _BLOCK else data.rfind(b"\n") + 1
            lines, rest = data[:cut], data[cut:]
            place = 0  # where the line begins whose number is counted
            while (found := find(lines, place)) >= 0:
                begin = lines.rfind(b"\n", place, found) + 1 or place
                end = lines.find(b"\n", found)
                number += lines.count(b"\n", place, begin)
                place = begin
                line = lines[begin : end if end >= 0 else None].rstrip(b"\r")
                yield number, line, begun or begin > 0, end >= 0 or not block
                if end < 0:
                    break
                number += 1
                place = end + 1
            number += lines.count(b"\n", place)
            if lines:
                begun = lines.endswith(b"\n")
            if not block:
                return
