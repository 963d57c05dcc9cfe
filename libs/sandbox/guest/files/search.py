"""Finds files by name and lines by text, inside the sandbox (standard library only)."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from libs.sandbox.guest.files.disk import NotRegular, open_regular
from libs.sandbox.guest.files.patterns import compile_pattern

__all__ = ["glob", "grep"]

_MOST_FILES: Final = 10_000
"""Files that `glob` returns."""
_SECONDS: Final = 5.0
"""Seconds after which a search returns what it has found."""
_NOT_SEARCHED: Final = frozenset({".git", ".output"})
"""Folders that `grep` skips below its root: git objects, and spilled output of commands."""
_ENDLESS: Final = frozenset({"/proc", "/sys", "/dev"})
_MOST_LINE: Final = 4_000
"""Characters of a matching line that are returned."""
_MOST_FOUND: Final = 8 * 1024 * 1024
"""Bytes of matching lines that are returned."""
_BLOCK: Final = 1024 * 1024
_LONGEST_LINE: Final = 16 * _BLOCK

Find = Callable[[bytes, int], int]
"""Returns the place of the next match in the data from a place on, or -1."""


class _Walk:
    """Iterates over the files below a folder. Links to folders are not followed."""

    def __init__(self, root: str, *, skip: frozenset[str] = frozenset()) -> None:
        self.root = root
        self._skip = skip
        self._deadline = time.monotonic() + _SECONDS
        self.late = False
        """Whether the time ran out before the end."""
        self.too_long = False
        """Whether `grep` left a file because of a line of over 16 MB."""
        self.unreadable = 0
        """Folders that could not be read."""

    def out_of_time(self) -> bool:
        self.late = self.late or time.monotonic() > self._deadline
        return self.late

    def __iter__(self) -> Iterator[str]:
        """Yield paths relative to the root, in tree order."""
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
    """Find files below `path` whose name or relative path matches.

    Raises:
        OSError: `path` is not a readable folder.
        PatternError: the pattern is not valid.
    """
    matches = compile_pattern(pattern)
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
    """Find lines that contain `text` literally. Several lines of text are alternatives, as in grep(1).

    Args:
        path: a file, or a folder to search.
        pattern: a file name pattern, relative to `path`.
        most: maximum number of lines.

    Raises:
        OSError: `path` cannot be read.
        PatternError: the pattern is not valid.
    """
    find = _finder([needle for needle in text.encode("utf-8", "surrogateescape").split(b"\n") if needle])
    matches = compile_pattern(pattern) if pattern else None
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
            for number, line in _lines_with(shown, find, walk):
                if len(found) == most or size > _MOST_FOUND:
                    return {"matches": found, "cut": True}
                decoded = line.decode("utf-8", "replace")
                size += len(decoded)
                match: dict[str, Any] = {"path": shown, "line": number, "text": decoded[:_MOST_LINE]}
                if len(decoded) > _MOST_LINE:
                    # The cut may split a secret: see `libs.sandbox.host.redacted_results.redacted_values`.
                    match["cut_after"] = "text"
                found.append(match)
    return {"matches": found, "cut": walk.late or walk.too_long}


def _finder(needles: list[bytes]) -> Find:
    """Return a function that finds the first of the needles. No needle contains a line end."""
    if len(needles) == 1:
        [needle] = needles
        return lambda data, place: data.find(needle, place)
    # Without needles, a pattern that never matches.
    search = re.compile(b"|".join(map(re.escape, needles)) or b"(?!)").search
    return lambda data, place: found.start() if (found := search(data, place)) else -1


def _lines_with(path: str, find: Find, walk: _Walk) -> Iterator[tuple[int, bytes]]:
    """Yield number and content of each matching line, up to a NUL byte or a line of over 16 MB."""
    with open_regular(path) as file:
        number = 1
        rest = b""
        while not walk.out_of_time():
            block = os.read(file, _BLOCK)
            data = rest + block
            if b"\0" in block:
                return
            if len(data) > _LONGEST_LINE:
                walk.too_long = True
                return
            # Search whole lines. The last line may continue in the next block.
            cut = data.rfind(b"\n") + 1 if block else len(data)
            lines, rest = data[:cut], data[cut:]
            place = 0  # begin of the line with the current number
            while (found := find(lines, place)) >= 0:
                begin = lines.rfind(b"\n", place, found) + 1 or place
                end = lines.find(b"\n", found)
                number += lines.count(b"\n", place, begin)
                place = begin
                yield number, lines[begin : end if end >= 0 else None].rstrip(b"\r")
                if end < 0:
                    break
                number += 1
                place = end + 1
            number += lines.count(b"\n", place)
            if not block:
                return
