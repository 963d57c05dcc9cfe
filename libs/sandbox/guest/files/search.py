"""Finds files by name and lines by text, inside the sandbox (standard library only)."""

from __future__ import annotations

import codecs
import errno
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from libs.sandbox.guest.files.disk import NotRegular, open_regular
from libs.sandbox.guest.files.patterns import compile_pattern

__all__ = ["MOST_ANSWER", "glob", "grep"]

_MOST_FILES: Final = 10_000
"""Files that `glob` returns."""
_SECONDS: Final = 5.0
"""Seconds after which a search returns what it has found."""
_NOT_SEARCHED: Final = frozenset({".git", ".output"})
"""Folders that `grep` skips below its root: git objects, and spilled output of commands."""
_ENDLESS: Final = frozenset({"/proc", "/sys", "/dev"})
_MOST_LINE: Final = 4_000
"""Characters of a matching line that are returned."""
_MOST_MATCHES: Final = 10_000
"""Matching lines that are returned."""
MOST_ANSWER: Final = 8 * 1024 * 1024
"""Characters of JSON that are returned, for names and matching lines."""
_MOST_NEEDLES: Final = 100
"""Lines of text that are searched for at once."""
_MOST_TEXT: Final = 100_000
"""Characters of several lines of text that are searched for at once."""
_BINARY: Final = b"[a binary file matches]"
_MOST_BINARY: Final = 64 * 1024 * 1024
"""Bytes of a binary file that are searched, so that large files leave time for the others."""
_MOST_UNREAD: Final = 5
"""Names of unreadable files and folders that are returned."""
_END: Final = re.compile(r"\r\n?|\n")
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
        self.unread: list[str] = []
        """The first files and folders that could not be read, relative to the root."""
        self.unread_count = 0

    def skip(self, relative: str) -> None:
        """Record a file or folder that cannot be read or searched to the end."""
        self.unread_count += 1
        if len(self.unread) < _MOST_UNREAD:
            self.unread.append(os.path.join(self.root, relative) if relative else self.root)

    def out_of_time(self) -> bool:
        self.late = self.late or time.monotonic() > self._deadline
        return self.late

    def __iter__(self) -> Iterator[str]:
        """Yield paths relative to the root, in tree order. Raises OSError if the root cannot be read."""
        waiting = [""]
        while waiting and not self.out_of_time():
            below = waiting.pop()
            folders: list[str] = []
            try:
                with os.scandir(os.path.join(self.root, below)) as entries:
                    listing = sorted(entries, key=lambda entry: entry.name)
            except OSError as error:
                if not below:
                    raise
                if not isinstance(error, FileNotFoundError):  # removed meanwhile
                    self.skip(below)
                continue
            for entry in listing:
                if self.out_of_time():
                    return
                relative = f"{below}/{entry.name}" if below else entry.name
                try:
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name not in self._skip and entry.path not in _ENDLESS:
                            folders.append(relative)
                    elif entry.is_file():
                        yield relative
                except OSError as error:
                    if error.errno != errno.ELOOP:  # a link to itself leads to no file
                        self.skip(relative)
            waiting += reversed(folders)


def glob(path: str, pattern: str) -> dict[str, Any]:
    """Find files below `path` whose name or relative path matches.

    Raises:
        OSError: `path` is not a readable folder.
        PatternError: the pattern is not valid.
    """
    matches = compile_pattern(pattern, path)
    walk = _Walk(path)
    found: list[str] = []
    size = 0
    for relative in walk:
        if matches(relative):
            if len(found) == _MOST_FILES or size > MOST_ANSWER:
                return {"paths": sorted(found), "cut": "budget"}
            found.append(os.path.join(path, relative))
            size += len(json.dumps(found[-1]))
    cut = "budget" if walk.late else "unreadable" if walk.unread_count else None
    return {"paths": sorted(found), "cut": cut}


def grep(path: str, text: str, pattern: str | None, most: int | None) -> dict[str, Any]:
    """Find lines that contain `text` literally. Several lines of text are alternatives, as in grep(1).

    Lines are those of a page: each `\\r\\n`, `\\r` and `\\n` ends a line. In UTF-16, only 0x0a does.

    Args:
        path: a file, or a folder to search.
        pattern: a file name pattern, relative to `path`.
        most: maximum number of lines, at most _MOST_MATCHES.

    Returns the matches, whether the search was cut, and the number and the first names of unreadable files
    and folders. Of a binary file, which has NUL bytes, one line says that it matches, as with grep(1). The
    file may be UTF-16 with a byte order mark. A binary file of over 64 MB counts as unreadable, and so does a
    text file from a line of over 16 MB on.

    Raises:
        OSError: `path` cannot be read.
        ValueError: the text is empty or has too many or too long lines, or the pattern is not valid.
    """
    needles = [line for line in _END.split(text) if line]
    if not needles:
        raise ValueError("the text is empty: name the text to search for")
    if len(needles) > _MOST_NEEDLES:
        raise ValueError(f"the text has {len(needles)} lines: search for at most {_MOST_NEEDLES} at once")
    if len(needles) > 1 and len(text) > _MOST_TEXT:
        raise ValueError(
            f"the text has {len(text):,} characters: search for one line, or for at most {_MOST_TEXT:,} "
            "characters at once"
        )
    find = _finder([needle.encode("utf-8", "surrogateescape") for needle in needles])
    wide = {
        mark: _finder([needle.encode(encoding, "surrogatepass") for needle in needles])
        for mark, encoding in ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
    }
    matches = compile_pattern(pattern, path) if pattern else None
    walk = _Walk(path, skip=_NOT_SEARCHED)
    files: Iterator[str] = iter(walk)
    if not os.path.isdir(path):
        with open_regular(path):
            files = iter([""])
    found: list[dict[str, Any]] = []
    most = _MOST_MATCHES if most is None else min(most, _MOST_MATCHES)
    size = 0
    cut = False
    for relative in files:
        if matches and relative and not matches(relative):
            continue
        shown = os.path.join(path, relative) if relative else path
        try:
            for number, line in _lines_with(shown, find, wide, walk):
                if len(found) >= most or size > MOST_ANSWER:
                    cut = True
                    break
                decoded = line.decode("utf-8", "replace")
                match: dict[str, Any] = {"path": shown, "line": number, "text": decoded[:_MOST_LINE]}
                if len(decoded) > _MOST_LINE:
                    # The cut may split a secret: see `libs.sandbox.host.redacted_results.redacted_values`.
                    match["cut_after"] = "text"
                size += len(json.dumps(match))
                found.append(match)
        except FileNotFoundError:
            continue  # removed meanwhile
        except NotRegular:
            continue
        except OSError:
            walk.skip(relative)
        if cut:
            break
    cut = cut or walk.late
    return {"matches": found, "cut": cut, "unread": walk.unread_count, "unread_first": walk.unread}


def _finder(needles: list[bytes]) -> Find:
    """Return a function that finds the first of the needles. No needle contains a line end."""
    if len(needles) == 1:
        [needle] = needles
        return lambda data, place: data.find(needle, place)
    search = re.compile(b"|".join(map(re.escape, needles))).search
    return lambda data, place: found.start() if (found := search(data, place)) else -1


def _lines_with(path: str, find: Find, wide: dict[bytes, Find], walk: _Walk) -> Iterator[tuple[int, bytes]]:
    """Yield number and content of each matching line.

    From the first block with a NUL byte on, only the first match is yielded, with `_BINARY` as content.

    Args:
        wide: byte order mark -> `find` for a file that begins with the mark.

    Raises:
        OSError: the file cannot be read, is binary and too large, or has a line of over 16 MB.
    """
    with open_regular(path) as file:
        mark = os.pread(file, 2, 0)
        find = wide.get(mark, find)
        number = 1
        rest = b""
        binary = False
        while not walk.out_of_time():
            block = os.read(file, _BLOCK)
            data = rest + block
            half = b""
            if mark not in wide and b"\r" in data:
                if block and data.endswith(b"\r"):  # perhaps half of a line end
                    data, half = data[:-1], b"\r"
                data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            binary = binary or b"\0" in block
            if binary:
                if (found := find(data, 0)) >= 0:
                    yield number + data.count(b"\n", 0, found), _BINARY
                if found >= 0 or not block:
                    return
                if os.lseek(file, 0, os.SEEK_CUR) > _MOST_BINARY:
                    raise OSError(errno.EFBIG, "File too large", path)
                # The text may continue in the next block. In UTF-16, 0x0a may also be half of a character.
                line = 0 if mark in wide else data.rfind(b"\n") + 1
                cut = max(line, len(data) - _BLOCK)
                number += data.count(b"\n", 0, cut)
                rest = data[cut:] + half
                continue
            if len(data) > _LONGEST_LINE:
                raise OSError(errno.EFBIG, "File too large", path)
            # Search whole lines. The last line may continue in the next block.
            cut = data.rfind(b"\n") + 1 if block else len(data)
            lines, rest = data[:cut], data[cut:] + half
            place = 0  # begin of the line with the current number
            while (found := find(lines, place)) >= 0:
                begin = lines.rfind(b"\n", place, found) + 1 or place
                end = lines.find(b"\n", found)
                number += lines.count(b"\n", place, begin)
                place = begin
                yield number, lines[begin : end if end >= 0 else None]
                if end < 0:
                    break
                number += 1
                place = end + 1
            number += lines.count(b"\n", place)
            if not block:
                return
