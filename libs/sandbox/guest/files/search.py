"""Lists folders, finds files by name and lines by text, inside the sandbox (standard library only)."""

from __future__ import annotations

import contextlib
import errno
import heapq
import json
import os
import stat
import time
from collections.abc import Iterator
from typing import Any, Final

from libs.sandbox.guest.files.disk import NotRegular, open_regular
from libs.sandbox.guest.files.matching_lines import finds_of, matching_lines
from libs.sandbox.guest.files.patterns import Search, compile_pattern
from libs.sandbox.guest.workers.removed_folders import REMOVED, is_removed, removed_above

__all__ = ["glob", "grep", "ls"]

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
_MOST_ANSWER: Final = 8 * 1024 * 1024
"""Characters of JSON that are returned, for names and matching lines."""
_MOST_NEEDLES: Final = 100
"""Lines of a text that is searched for."""
_MOST_TEXT: Final = 100_000
"""Most characters of the text to search for."""
_MOST_ENTRIES: Final = 50_000
"""Entries of one folder that `ls` returns."""
_MOST_UNREAD: Final = 5
"""Names of unreadable files and folders that are returned."""


class _Walk:
    """Finds files below a folder."""

    def __init__(self, root: str, *, skip: frozenset[str] = frozenset()) -> None:
        self._root = root.rstrip("/") or "/"
        self._skip = skip
        self._deadline = time.monotonic() + _SECONDS
        self.late = False
        """Whether the time ran out before the end."""
        self.unread: list[str] = []
        """The first files and folders that could not be read."""
        self.unread_count = 0

    def skip(self, path: str) -> None:
        """Record a file or folder that cannot be read or searched to the end."""
        self.unread_count += 1
        if len(self.unread) < _MOST_UNREAD:
            self.unread.append(path)

    def out_of_time(self) -> bool:
        self.late = self.late or time.monotonic() > self._deadline
        return self.late

    def files(self, pattern: str | None, *, hidden: bool = False) -> Iterator[str]:
        """Yield each file that matches, in tree order: see `compile_pattern`. None: every file.

        Raises:
            OSError: the root is not a readable folder.
            PatternError: the pattern is not valid.
        """
        if is_removed(self._root):
            raise OSError(errno.ESTALE, REMOVED)
        everything = {self._root: Search(lambda _: True, None)}
        searches = compile_pattern(pattern, self._root, hidden=hidden) if pattern is not None else everything
        if self._root not in searches:
            os.stat(os.path.join(self._root, "."))
        seen: set[str] = set()
        for start, search in searches.items():
            for relative in self._below(start, search.depth):
                if not search.matches(relative):
                    continue
                path = os.path.join(start, relative)
                if len(searches) > 1:
                    if path in seen:
                        continue
                    seen.add(path)
                yield path

    def _below(self, start: str, depth: int | None) -> Iterator[str]:
        """Yield the files below a folder, as relative paths. Links to folders are not followed.

        Args:
            depth: most names of a path. None: any number.
        """
        waiting = [""]
        while waiting and not self.out_of_time():
            below = waiting.pop()
            folder = os.path.join(start, below) if below else start
            folders: list[str] = []
            try:
                with os.scandir(folder) as entries:
                    listing = sorted(entries, key=lambda entry: entry.name)
            except OSError as error:
                if not below and start == self._root:
                    raise
                if not isinstance(error, FileNotFoundError | NotADirectoryError):
                    self.skip(folder)
                elif gone := removed_above(folder):
                    self.skip(gone)
                continue  # removed meanwhile, or no folder of this name was there
            if not listing and is_removed(folder):
                self.skip(folder)
            for entry in listing:
                if self.out_of_time():
                    return
                relative = f"{below}/{entry.name}" if below else entry.name
                try:
                    if entry.is_dir(follow_symlinks=False):
                        deeper = depth is None or relative.count("/") + 1 < depth
                        if deeper and entry.name not in self._skip and entry.path not in _ENDLESS:
                            folders.append(relative)
                    elif entry.is_file():
                        yield relative
                except OSError as error:
                    if error.errno != errno.ELOOP:  # a link to itself leads to no file
                        self.skip(entry.path)
            waiting += reversed(folders)


def ls(path: str) -> dict[str, Any]:
    """List a folder. `cut`: the folder has more entries than are returned, which are the first by name."""
    entries: list[dict[str, Any]] = []
    size = 0
    cut = False
    with os.scandir(path) as folder:
        for entry in heapq.nsmallest(_MOST_ENTRIES + 1, folder, key=lambda entry: entry.name):
            if len(entries) == _MOST_ENTRIES or size > _MOST_ANSWER:
                cut = True
                break
            info: dict[str, Any] = {"path": os.path.join(path, entry.name), "is_dir": False}
            size += len(json.dumps(info))
            with contextlib.suppress(OSError):  # removed meanwhile, a broken link, or a folder without x
                info["is_dir"] = entry.is_dir(follow_symlinks=False)
                result = entry.stat()
                info["is_dir"] = stat.S_ISDIR(result.st_mode)
                info["size"] = result.st_size
                info["modified"] = result.st_mtime
            entries.append(info)
    if not entries and is_removed(path):
        raise OSError(errno.ESTALE, REMOVED)
    return {"entries": entries, "cut": cut}


def glob(path: str, pattern: str) -> dict[str, Any]:
    """Find files below `path` whose name or relative path matches.

    Raises:
        OSError: `path` is not a readable folder.
        PatternError: the pattern is not valid.
    """
    walk = _Walk(path)
    found: list[str] = []
    size = 0
    for file in walk.files(pattern):
        if len(found) == _MOST_FILES or size > _MOST_ANSWER:
            return {"paths": sorted(found), "cut": "budget"}
        found.append(file)
        size += len(json.dumps(file))
    cut = "budget" if walk.late else "unreadable" if walk.unread_count else None
    return {"paths": sorted(found), "cut": cut}


def grep(path: str, text: str, pattern: str | None, most: int | None) -> dict[str, Any]:
    """Find lines that contain `text` literally, or in which it begins if it has several lines.

    Args:
        path: a file, or a folder to search.
        pattern: a file name pattern, relative to `path`. Its `**` also matches folders like `.github`.
        most: maximum number of lines, at most _MOST_MATCHES.

    Returns the matches (`replaced`: bytes that are not UTF-8 are U+FFFD), whether the search was cut, and the
    number and the first names of unreadable files and folders. Of a binary file, which has NUL bytes, one
    line says that it matches, as with grep(1). The file may be UTF-16 or UTF-32 with a byte order mark. A
    binary file of over 64 MB counts as unreadable, and so does a text file from a line of over 16 MB on, or
    from lines of over 16 MB, as many as the text has.

    Raises:
        OSError: `path` cannot be read.
        ValueError: the text is empty, too long or has too many lines, or the pattern is not valid.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if not any(lines):
        raise ValueError("the text is empty, or only ends of lines: name the text to search for")
    if len(lines) > _MOST_NEEDLES:
        raise ValueError(f"the text has {len(lines)} lines: search for at most {_MOST_NEEDLES}")
    if len(text) > _MOST_TEXT:
        raise ValueError(f"the text has {len(text):,} characters: search for at most {_MOST_TEXT:,} of them")
    finds = finds_of(lines)
    walk = _Walk(path, skip=_NOT_SEARCHED)
    if os.path.isdir(path):
        files = walk.files(pattern or None, hidden=True)
    else:
        with open_regular(path):
            files = iter([path])
    found: list[dict[str, Any]] = []
    most = _MOST_MATCHES if most is None else min(most, _MOST_MATCHES)
    size = 0
    cut = False
    for file in files:
        try:
            for number, line in matching_lines(file, finds, walk.out_of_time):
                if len(found) >= most or size > _MOST_ANSWER:
                    cut = True
                    break
                decoded = line.decode("utf-8", "replace")
                match: dict[str, Any] = {"path": file, "line": number, "text": decoded[:_MOST_LINE]}
                if len(decoded) > _MOST_LINE:
                    # The cut may split a secret: see `libs.sandbox.host.requests.redacted_values`.
                    match["cut_after"] = "text"
                if match["text"].count("\ufffd") > line.count(b"\xef\xbf\xbd"):
                    match["replaced"] = True
                size += len(json.dumps(match))
                found.append(match)
        except FileNotFoundError:
            continue  # removed meanwhile
        except NotRegular:
            continue
        except OSError:
            walk.skip(file)
        if cut:
            break
    cut = cut or walk.late
    return {"matches": found, "cut": cut, "unread": walk.unread_count, "unread_first": walk.unread}
