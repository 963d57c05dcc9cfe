"""Files that pages offer: saved under a name of their own in the results, and named."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

from playwright.async_api import Download, Error

__all__ = ["PARTIAL", "Downloads"]

PARTIAL = Path("/workspace/.downloads")
"""Where files are while they come: on the disk of the results, so that none is copied when it is whole."""
_FOLDER = Path("/workspace/results/downloads")
_SHOWN = Path("/results/downloads")
_MOST = 20
_NAME_BYTES = 200


class Downloads:
    """The downloads of one browser. What becomes of each is said in `notes`."""

    def __init__(self, notes: list[str]) -> None:
        self.count = 0
        """How many there have been."""
        self._seen = 0
        self._notes = notes
        self._under_way: dict[asyncio.Task[None], str] = {}
        self._done: list[str] = []

    @property
    def under_way(self) -> bool:
        """Whether any is still coming."""
        return bool(self._under_way)

    def take(self) -> list[str]:
        """Paths of those that have come since it was last asked for."""
        done, self._done = self._done, []
        return done

    def offered(self, download: Download) -> None:
        """Save one, while other things go on."""
        self.count += 1
        name = _file_name(download.suggested_filename)
        task = asyncio.create_task(self._save(download, name, refused=len(self._under_way) >= _MOST))
        self._under_way[task] = name
        task.add_done_callback(lambda _: self._under_way.pop(task))

    async def finish(self, seconds: float) -> bool:
        """Wait for those that are under way, so long at most. Whether there were new ones."""
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
    """Move a file that has come to the others, under a name that none of them has."""
    _FOLDER.mkdir(parents=True, exist_ok=True)
    file = _free(_FOLDER / name)
    partial.replace(file)
    return file


def _file_name(suggested: str) -> str:
    """A name that leads nowhere else, can be printed and fits a file system."""
    name = "".join(letter if letter.isprintable() and letter not in "/\\" else "_" for letter in suggested)
    name = name.strip(". ") or "download"
    suffix = Path(name).suffix[:20]
    stem = name.removesuffix(suffix)
    while len(f"{stem}{suffix}".encode()) > _NAME_BYTES:
        stem = stem[:-1]
    return f"{stem}{suffix}"


def _free(file: Path) -> Path:
    """That name, or with a number behind it one that no file has."""
    number, free = 1, file
    while free.exists():
        number += 1
        free = file.with_name(f"{file.stem}-{number}{file.suffix}")
    return free
