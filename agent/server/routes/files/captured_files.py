"""Reads files of a thread for the page from its latest capture, while no sandbox of the thread runs here.

Only the server's folder of data is in no capture. It is read in a fresh sandbox, in which also tables and PDF
files are decoded.
"""

from __future__ import annotations

import asyncio
import posixpath
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

from agent.secrets import KNOWN
from agent.server.json_exchange import Refused
from agent.server.routes.files.held_bytes import ROOM
from agent.server.routes.files.kept_files import Content, KeptFile, beginning, kept_file, not_kept
from agent.server.routes.files.preview_program import MOST_LISTED
from agent.server.routes.files.workspace_files import Found, Listing, Table, WorkspaceFiles, absolute, refused
from agent.server.routes.turn_requests import refusing
from libs.sandbox import FOLDERS
from libs.sandbox.host import ChannelSandbox
from libs.workspace import Entry, Manifest, inside, shown

__all__ = ["CapturedFiles"]

_HOME: Final = "/workspace"
_DATA: Final = f"{_HOME}/data"
_MOST_LINKS: Final = 40
"""Links on the way to one file, as in Linux."""
_KINDS: Final = {"file": "file", "dir": "folder", "link": "link"}

_turns = asyncio.Semaphore(4)
"""Fresh sandboxes at once."""


class CapturedFiles:
    """Has the methods of `WorkspaceFiles` that read, with the same refusals.

    Args:
        manifest: the capture.
        content: reads files of the capture.
        fresh: gives a sandbox that belongs to no thread.
    """

    def __init__(
        self,
        manifest: Manifest,
        content: Content,
        fresh: Callable[[], AbstractAsyncContextManager[ChannelSandbox]],
    ) -> None:
        self._manifest = manifest
        self._content = content
        self._fresh = fresh

    async def list(self, path: str) -> Listing:
        """See `WorkspaceFiles.list`."""
        place = self._real(path)
        if _is_data(place):
            async with self._sandbox() as files:
                return await files.list(place)
        return await asyncio.to_thread(self._listed, place)

    async def find(self, path: str) -> Found:
        """See `WorkspaceFiles.find`."""
        place = self._real(path)
        if _is_data(place):
            async with self._sandbox() as files:
                return await files.find(place)
        return Found(path=place, bytes=self._kept(place).size)

    async def read(self, found: Found) -> bytes:
        """See `WorkspaceFiles.read`."""
        if _is_data(found.path):
            async with self._sandbox() as files:
                return await files.read(found)
        async with refusing():
            return await self._kept(found.path).read()

    async def text(self, path: str) -> tuple[bytes, bool]:
        """See `WorkspaceFiles.text`."""
        place = self._real(path)
        if _is_data(place):
            async with self._sandbox() as files:
                return await files.text(place)
        found = await self.find(place)
        with ROOM.held(found.bytes):
            return beginning(await self.read(found))

    async def table(self, path: str, offset: int, limit: int) -> Table:
        """See `WorkspaceFiles.table`."""
        place = self._real(path)
        async with self._sandbox(place) as files:
            return await files.table(place, offset, limit)

    async def page(self, path: str, number: int) -> tuple[bytes, int]:
        """See `WorkspaceFiles.page`."""
        place = self._real(path)
        async with self._sandbox(place) as files:
            return await files.page(place, number)

    @asynccontextmanager
    async def _sandbox(self, place: str = _DATA) -> AsyncIterator[WorkspaceFiles]:
        """Give the files of a fresh sandbox, which has one file of the capture, and the folder of data."""
        file = None if _is_data(place) else self._kept(place)
        async with refusing(), _turns, self._fresh() as sandbox:
            if file:
                with ROOM.held(file.size):
                    content = await file.content(self._manifest, file.path)
                    await sandbox.afile("write", path=place, replace=True, content=content)
                    del content
            yield WorkspaceFiles(sandbox)

    def _kept(self, place: str) -> KeptFile:
        file = kept_file(self._manifest, _key(place), self._content)
        if file is None:
            raise refused("ENOENT")
        return file

    def _listed(self, place: str) -> Listing:
        own = self._manifest.entries.get(_key(place))
        if place != _HOME and (own is None or own.kind != "dir"):
            raise refused("ENOTDIR" if own else "ENOENT")
        if why := self._manifest.reason(_key(place)):
            raise not_kept(place, why)
        # Every sandbox has these folders.
        below: dict[str, Entry | None] = dict.fromkeys(FOLDERS) if place == _HOME else {}
        start = f"{_key(place)}/"
        for path, entry in self._manifest.entries.items():
            if path.startswith(start) and "/" not in (name := path[len(start) :]):
                below[name] = entry
        entries = [self._described(f"{place}/{name}", entry) for name, entry in below.items()]
        entries.sort(
            key=lambda each: ("folder" not in (each["kind"], each["leads_to"]), each["name"].lower())
        )
        cut = len(entries) > MOST_LISTED
        return Listing.model_validate({"path": place, "entries": entries[:MOST_LISTED], "truncated": cut})

    def _described(self, place: str, entry: Entry | None) -> dict[str, Any]:
        """Describe an entry, None for a folder, as the preview program does."""
        raw = posixpath.basename(place).encode("utf-8", "surrogateescape")
        name = raw.decode("utf-8", "backslashreplace")
        kind = _KINDS[entry.kind] if entry else "folder"
        leads_to = self._target_kind(place) if kind == "link" else None
        if name.encode() != raw:  # no request could name it
            kind, leads_to = "other", None
        size, modified = (entry.size, entry.mtime_ns / 1e9) if entry else (0, 0.0)
        return {"name": KNOWN(name), "kind": kind, "bytes": size, "modified": modified, "leads_to": leads_to}

    def _target_kind(self, link: str) -> str | None:
        try:
            place = self._real(link)
        except Refused:
            return None
        if place in (_HOME, _DATA):
            return "folder"
        entry = self._manifest.entries.get(_key(place))
        return _KINDS[entry.kind] if entry else None

    def _real(self, path: str) -> str:
        """Return the place in /workspace to which a path leads. Only its end may be missing there.

        Raises:
            Refused: the path is invalid, or leads out of /workspace.
        """
        place, left, links = "/", deque(_parts(absolute(path))), 0
        while left:
            place = posixpath.normpath(posixpath.join(place, left.popleft()))
            if place[1:] in FOLDERS:
                place = f"{_HOME}{place}"
            entry = self._manifest.entries.get(_key(place)) if _is_below(place, _HOME) else None
            if entry and entry.kind == "link":
                if (links := links + 1) > _MOST_LINKS:
                    raise refused("ELOOP")
                left.extendleft(reversed(_parts(posixpath.join(posixpath.dirname(place), str(entry.target)))))
                place = "/"
        if not _is_below(place, _HOME):
            raise refused("outside")
        return place


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _is_below(place: str, folder: str) -> bool:
    return place == folder or place.startswith(f"{folder}/")


def _is_data(place: str) -> bool:
    return _is_below(place, _DATA)


def _key(place: str) -> str:
    """Return the path of a place in manifests."""
    return shown(inside(place))
