"""Brings folders of the server to a node: skills, and the data that all threads read."""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from libs.sandbox.cluster.actor import Entry

__all__ = ["Folder", "FolderWriter", "bring", "folder_key"]

_PIECE: Final = 4_000_000
"""Bytes of a file in one call."""


class FolderWriter(Protocol):
    """Changes a mirrored folder of a node. Methods raise SandboxError if the node fails."""

    def known(self, key: str) -> Mapping[str, Entry]: ...
    def write(self, key: str, path: str, entry: Entry, offset: int, data: bytes) -> None: ...
    def arrange(self, key: str, entries: Mapping[str, Entry], gone: list[str]) -> None: ...


class Folder:
    """A folder of the server. Each file is hashed once, and again when its time or size has changed.

    Args:
        look_seconds: how long a look at the folder serves for all sandboxes.
    """

    def __init__(self, place: Path, *, look_seconds: float = 0.5) -> None:
        self.place = place
        self._look_seconds = look_seconds
        self._found: dict[str, Entry] = {}
        self._looked_at = float("-inf")
        self._digests: dict[str, tuple[tuple[int, ...], str]] = {}
        self._lock = threading.Lock()

    def entries(self) -> dict[str, Entry]:
        """Return what the folder holds, except FIFOs, sockets, devices, and files that cannot be read."""
        with self._lock:
            if time.monotonic() - self._looked_at > self._look_seconds:
                self._found = dict(self._walk(self.place, ""))
                self._looked_at = time.monotonic()
                self._digests = {path: kept for path, kept in self._digests.items() if path in self._found}
            return self._found

    def _walk(self, folder: Path, above: str) -> Iterator[tuple[str, Entry]]:
        with suppress(OSError), os.scandir(folder) as each:
            for item in sorted(each, key=lambda item: item.name):
                with suppress(OSError):
                    path, found = above + item.name, item.stat(follow_symlinks=False)
                    mode = stat.S_IMODE(found.st_mode)
                    if item.is_symlink():
                        yield path, Entry("link", str(Path(item.path).readlink()), 0o777)
                    elif item.is_dir():
                        yield path, Entry("dir", "", mode)
                        yield from self._walk(Path(item.path), f"{path}/")
                    elif item.is_file():
                        digest = self._digest(path, found)
                        yield path, Entry("file", digest, mode, found.st_mtime_ns, found.st_size)

    def _digest(self, path: str, found: os.stat_result) -> str:
        stamp = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        kept = self._digests.get(path)
        if kept is None or kept[0] != stamp:
            with (self.place / path).open("rb") as file:
                kept = stamp, hashlib.file_digest(file, "sha256").hexdigest()
            self._digests[path] = kept
        return kept[1]


def folder_key(place: Path) -> str:
    """Return the name of a folder on the nodes."""
    return hashlib.sha256(os.fsencode(place)).hexdigest()[:16]


def bring(folder: Folder, now: Mapping[str, Entry], to: FolderWriter) -> bool:
    """Make the mirror of a folder on a node like the folder. Sends contents that the mirror does not hold.

    A file that changes meanwhile is left as it was; the next call brings it.
    Return whether the mirror holds everything.

    Args:
        now: what the folder holds.

    Raises:
        SandboxError: the node fails.
    """
    key = folder_key(folder.place)
    there = to.known(key)
    changed = {path: entry for path, entry in now.items() if there.get(path) != entry}
    gone = [path for path in there if path not in now]
    if not changed and not gone:
        return True
    sent = {path: entry for path, entry in changed.items() if _is_new(entry, there.get(path))}
    # First: what was a link or a file may be a folder now.
    to.arrange(key, {path: entry for path, entry in changed.items() if path not in sent}, gone)
    arrived = [_send(folder.place / path, key, path, entry, to) for path, entry in sent.items()]
    return all(arrived)


def _is_new(entry: Entry, old: Entry | None) -> bool:
    """Return whether the content of a file must be sent."""
    return entry.kind == "file" and (old is None or old.kind != "file" or old.content != entry.content)


def _send(file: Path, key: str, path: str, entry: Entry, to: FolderWriter) -> bool:
    """Send a file. Return whether it could be read, and was as long as its entry says."""
    with suppress(OSError), file.open("rb") as opened:
        offset = 0
        while True:
            data = opened.read(_PIECE)
            if len(data) < min(_PIECE, entry.size - offset):
                return False
            data = data[: entry.size - offset]
            to.write(key, path, entry, offset, data)
            offset += len(data)
            if offset == entry.size:
                return True
    return False
