"""Collect the files that a program has made or changed.

The answers of the sandbox may be forged, because the program's user gives them. Nothing is written on the
host. Files that are not regular or have invalid names are left out, and named.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from libs.exec_tool.execute_code_call import MAX_PATH, check_path, in_another
from libs.exec_tool.outcome import quoted_path
from libs.persistence import FileContent, mode_of
from libs.redaction import Redact
from libs.sandbox import FOLDERS, FileFailed, Sandbox
from libs.sandbox.host import redacted_content
from libs.sandbox.pool import Fresh
from libs.workspace import Entry, Manifest, batches, inside, read_parts, shown, walked

__all__ = ["Collected", "collected"]

MOST_FILES = 256
"""Most files of a workspace: those before the program that are still there, and new ones."""
MOST_BYTES = 64 * 1024 * 1024
"""Most bytes of all files of a workspace: those before the program that are still there, and new ones."""
_READ_SECONDS = 8.0
"""Time in which files are read for their SHA-256, the smallest first. Without it, large files with nothing in
them would take all the time in which files are collected."""
_MOST_OF_DISK = 0.75
"""Largest part of the disk that comes back, because the next program of the thread needs some room."""


@dataclass(frozen=True, slots=True)
class Collected:
    """The changes of a workspace by a program."""

    changed: dict[str, bytes]
    """Path -> content of new and changed files, with the mode: see `mode_of`."""
    removed: tuple[str, ...]
    """Paths of removed files."""
    left_out: tuple[tuple[str, str], ...]
    """Name and reason of files and folders that are not returned."""
    stale: tuple[str, ...] = ()
    """Paths of earlier files whose content after the program is not known."""
    redacted: tuple[str, ...] = ()
    """Paths of files in whose content or name known secrets were replaced."""


async def collected(sandbox: Fresh, before: Mapping[str, bytes], links: Collection[str] = ()) -> Collected:
    """Return the changes of a workspace that held `before`. No process may run in the sandbox.

    `links`: folders of the workspace that were links before the program.

    Raises:
        OSError: the files cannot be read, or an answer of the sandbox is not valid.
        SandboxError: see `Sandbox`.
    """
    found = await walked(sandbox, Manifest({}), most=MOST_BYTES, again=(), seconds=_READ_SECONDS)
    room = min(MOST_BYTES, int(sandbox.disk * _MOST_OF_DISK))
    look = await asyncio.to_thread(_Look, found.manifest, before, room, sandbox.redact, links)
    for batch in batches(look.wanted):
        contents = await read_parts(sandbox, batch)
        look.contents |= zip((path for path, _, _ in batch), contents, strict=True)
    if await _has_own_folder(sandbox):
        look.leave(".output", "the sandbox's own folder")
    return await asyncio.to_thread(look.changes)


async def _has_own_folder(sandbox: Sandbox) -> bool:
    """Return whether the program has put something into the folder that the walk leaves out."""
    try:
        answer, _ = await sandbox.afile("ls", path=".output")
    except FileFailed as error:
        return error.code != "file_not_found"
    return bool(answer.get("entries"))


class _Look:
    """The workspace after a program, compared with the files before."""

    def __init__(
        self,
        now: Manifest,
        before: Mapping[str, bytes],
        room: int,
        redact: Redact | None,
        links: Collection[str],
    ) -> None:
        self._now = now
        self._links = links
        self._before = before
        self._redact = redact
        self._left_out: list[tuple[str, str]] = []
        self._found: dict[str, tuple[str, Entry]] = {}
        """Path of each file -> its path inside, without redaction, and its entry."""
        self.contents: dict[str, bytes] = {}
        """Path inside -> content. At first, of the files that have not changed."""
        self.wanted: dict[str, Entry] = {}
        """Path inside -> entry of the files whose content has to come out of the sandbox."""
        staying = [least for path in before if (least := self._least(path)) is not None]
        held = len(staying)
        most, room = room, room - sum(staying)
        for at, path, entry in self._regular():
            if path in self._found:  # the removal of secrets has made two names alike
                self.leave(path, "another file has the same name without secrets")
                continue
            new = path not in before
            if new and entry.sha256 is not None and held >= MOST_FILES:
                self.leave(path, f"there are over {MOST_FILES}")
                continue
            self._found[path] = at, entry
            old = before.get(path)
            grown = max(0, entry.size - len(old or b""))
            if old is not None and len(old) == entry.size and hashlib.sha256(old).hexdigest() == entry.sha256:
                self.contents[at] = old
            elif grown > max(0, room):
                self.leave(path, f"all files together may have {most:,} bytes", entry.size)
            elif entry.sha256 is None:
                self.leave(path, _not_opened(now.skipped.get(shown(at), "")))
            else:
                held += new
                room -= grown
                self.wanted[at] = entry
        for path in in_another(self._found):
            at, _ = self._found[path]
            self.contents.pop(at, None)
            self.wanted.pop(at, None)
            self.leave(path, "its folder has the name of a file without secrets")

    def _regular(self) -> Iterator[tuple[str, str, Entry]]:
        """Yield path inside, path and entry of the regular files with valid names, the smallest first."""
        now = self._now
        entries = {**dict.fromkeys(now.skipped), **now.entries}
        sizes = {place: entry.size if entry else 0 for place, entry in entries.items()}
        for place in sorted(entries, key=lambda place: (sizes[place], place)):
            entry = entries[place]
            at = inside(place)
            name = self._redact(at) if self._redact else at
            if not at or (entry and entry.kind == "dir"):
                if why := now.skipped.get(place):
                    self.leave(name or ".", _not_opened(why))
                continue
            try:
                path = check_path(name)
            except ValueError:
                long = len(name) > MAX_PATH
                why = f"its path has over {MAX_PATH} characters" if long else "a name that cannot be kept"
                self.leave(name, why)
                continue
            if entry and entry.kind == "file":
                yield at, path, entry
            elif path not in self._links:
                self.leave(path, "a link, FIFO or device")

    def _least(self, path: str) -> int | None:
        """Return the bytes that an earlier file takes at least. None: the program has removed it."""
        size, entry = len(self._before[path]), self._now.entries.get(shown(path))
        if entry and entry.kind == "file":
            return min(size, entry.size) if entry.sha256 else size
        return size if self._now.unread(shown(path)) else None

    def changes(self) -> Collected:
        """Return the changes, when `contents` holds the wanted files, too."""
        changed: dict[str, bytes] = {}
        read: set[str] = set()
        redacted: list[str] = []
        for path, (at, entry) in self._found.items():
            content = self.contents.get(at)
            if content is None:
                continue
            if len(content) != entry.size:
                self.leave(path, "it changes while it is read")
                continue
            try:
                data = redacted_content(self._redact, content) if self._redact else content
            except FileFailed as error:
                self.leave(path, str(error))
                continue
            read.add(path)
            if data != content or path != at:
                redacted.append(path)
            old, new = self._before.get(path), FileContent(data, entry.mode)
            if old is None or old != new or mode_of(old) != new.mode:
                changed[path] = new
        for path in self._empty():
            self.leave(path, "an empty folder")
        gone = self._before.keys() - self._found.keys()
        removed = sorted(path for path in gone if not self._now.unread(shown(path)))
        stale = sorted(self._before.keys() - read - set(removed))
        return Collected(changed, tuple(removed), tuple(self._left_out), tuple(stale), tuple(redacted))

    def _empty(self) -> Iterator[str]:
        """Yield the empty folders. There was none before the program."""
        now = self._now
        filled = {place.rpartition("/")[0] for place in (*now.entries, *now.skipped)} | now.skipped.keys()
        for place, entry in now.entries.items():
            at = inside(place)
            if entry.kind == "dir" and place not in filled and at not in ("", *FOLDERS):
                yield self._redact(at) if self._redact else at

    def leave(self, path: str, why: str, size: int | None = None) -> None:
        """Name what is not returned."""
        told = quoted_path(path)[1:-1] if size is None else f"{quoted_path(path)[1:-1]}, {size:,} bytes"
        self._left_out.append((told, why))


def _not_opened(why: str) -> str:
    return f"Cannot open: {why.capitalize()}"
