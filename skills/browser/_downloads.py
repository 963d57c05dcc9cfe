"""Saves files that pages offer under safe names in the results."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

from playwright.async_api import Download, Error

__all__ = ["PARTIAL", "Downloads"]

PARTIAL = Path("/workspace/.downloads")
"""Folder of unfinished files, on the disk of the results, so that a finished file is only renamed."""
_FOLDER = Path("/workspace/results/downloads")
_SHOWN = Path("/results/downloads")
_MOST = 20
_NAME_BYTES = 200


class Downloads:
    """The downloads of one browser. Each result becomes a line in `notes`."""

    def __init__(self, notes: list[str]) -> None:
        self.count = 0
        """Number of downloads so far."""
        self._seen = 0
        self._notes = notes
        self._under_way: dict[asyncio.Task[None], str] = {}
        self._done: list[str] = []

    @property
    def under_way(self) -> bool:
        """Whether a download is unfinished."""
        return bool(self._under_way)

    def take(self) -> list[str]:
        """Return the paths of downloads that finished since the last call."""
        done, self._done = self._done, []
        return done

    def offered(self, download: Download) -> None:
        """Save a download in the background."""
        self.count += 1
        name = _file_name(download.suggested_filename)
        task = asyncio.create_task(self._save(download, name, refused=len(self._under_way) >= _MOST))
        self._under_way[task] = name
        task.add_done_callback(lambda _: self._under_way.pop(task))

    async def finish(self, seconds: float) -> bool:
        """Wait for unfinished downloads, up to `seconds`. Return whether there were new downloads."""
        if self._under_way:
            await asyncio.wait(set(self._under_way), timeout=seconds)
        for name in self._under_way.values():
            self._notes.append(f"the download of {name} goes on; a later call names it when it is there")
        fresh, self._seen = self.count > self._seen, self.count
        return fresh

    async def _save(self, download: Download, name: str, *, refused: bool) -> None:
        try:
            if refused:
                await download.cancel()
                self._notes.append(f"{name} was not downloaded: {_MOST} others are under way")
                return
            if failure := await download.failure():
                self._notes.append(f"the download of {name} failed: {failure}")
                return
            file = _keep(await download.path(), name)
        except (Error, OSError) as error:
            self._notes.append(f"the download of {name} failed: {error}")
            return
        path = str(_SHOWN / file.name)
        self._done.append(path)
        host = urlsplit(download.url).netloc
        self._notes.append(f"downloaded{f' from {host}' if host else ''}: {path}")


def _keep(partial: Path, name: str) -> Path:
    """Move a finished file into the results, under a free name."""
    _FOLDER.mkdir(parents=True, exist_ok=True)
    file = _free(_FOLDER / name)
    partial.replace(file)
    return file


def _file_name(suggested: str) -> str:
    """Return a printable file name without folders that fits a file system."""
    name = "".join(letter if letter.isprintable() and letter not in "/\\" else "_" for letter in suggested)
    name = name.strip(". ") or "download"
    suffix = Path(name).suffix[:20]
    stem = name.removesuffix(suffix)
    while len(f"{stem}{suffix}".encode()) > _NAME_BYTES:
        stem = stem[:-1]
    return f"{stem}{suffix}"


def _free(file: Path) -> Path:
    """Return the path, with a number added if the file exists."""
    number, free = 1, file
    while free.exists():
        number += 1
        free = file.with_name(f"{file.stem}-{number}{file.suffix}")
    return free
