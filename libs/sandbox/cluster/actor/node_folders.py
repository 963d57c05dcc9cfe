"""Keeps the mirrored folders of a node. Containers mount them read-only."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from libs.sandbox.process_owner import label_in, name_with, owner_gone, owner_label

__all__ = ["Entry", "NodeFolders", "remove_old_folders"]

_PREFIX: Final = "code-agent-node-"


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, a folder or a link of a mirrored folder."""

    kind: Literal["file", "dir", "link"]
    content: str
    """SHA-256 of a file, target of a link; empty for a folder."""
    mode: int
    mtime_ns: int = 0
    """Of a file only."""
    size: int = 0


class NodeFolders:
    """Folders of one actor. Not thread-safe for one key.

    Args:
        place: folder in which they are made.
    """

    def __init__(self, place: Path) -> None:
        name = name_with(owner_label(), "")
        self._root = Path(tempfile.mkdtemp(dir=place, prefix=f"{_PREFIX}{name}"))
        self._known: dict[str, dict[str, Entry]] = {}

    def place(self, key: str) -> Path:
        """Return the path of a mirrored folder. It is made if it is missing."""
        folder = self._root / key
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
        return folder

    def known(self, key: str) -> Mapping[str, Entry]:
        """Return what a mirrored folder holds."""
        return dict(self._known.get(key, {}))

    def write(self, key: str, path: str, entry: Entry, offset: int, data: bytes) -> None:
        """Write a piece of a file, whose folder is there. The last piece puts the file in its place.

        Raises:
            OSError: the disk is full.
        """
        part = self._root / f"{key}.part"
        with part.open("r+b" if offset else "wb") as file:
            file.seek(offset)
            file.write(data)
        if offset + len(data) == entry.size:
            target = self.place(key) / path
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target)
            _set(part, entry)
            part.replace(target)
            self._known.setdefault(key, {})[path] = entry

    def arrange(self, key: str, entries: Mapping[str, Entry], gone: Collection[str]) -> None:
        """Remove what is gone, make folders and links, and set modes and times.

        Raises:
            OSError: the disk is full.
        """
        place, known = self.place(key), self._known.setdefault(key, {})
        for path in sorted(gone, reverse=True):  # what is in a folder before the folder
            _remove(place / path)
            known.pop(path, None)
        for path, entry in sorted(entries.items()):  # a folder before what is in it
            at = place / path
            if entry.kind == "link":
                _remove(at)
                at.symlink_to(entry.content)
            elif entry.kind == "dir" and (at.is_symlink() or not at.is_dir()):
                _remove(at)
                at.mkdir()
            if entry.kind != "link":
                _set(at, entry)
            known[path] = entry


def _set(path: Path, entry: Entry) -> None:
    # The user inside is another one, so everybody may read what the server could read.
    path.chmod(entry.mode | (0o555 if entry.kind == "dir" else 0o444))
    if entry.kind == "file":
        os.utime(path, ns=(entry.mtime_ns, entry.mtime_ns))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def remove_old_folders(place: Path) -> None:
    """Remove the folders of actors that are gone."""
    for folder in place.glob(f"{_PREFIX}*"):
        if owner_gone(label_in(folder.name.removeprefix(_PREFIX))):
            with suppress(OSError):
                shutil.rmtree(folder)
