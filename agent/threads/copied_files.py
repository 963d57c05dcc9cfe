"""Copies the files of a snapshot to a folder of this machine."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from libs.workspace import Entry, Manifest, SnapshotsUnavailable, inside

__all__ = ["NotEmpty", "copy_files"]

_NAMES: Final = frozenset({errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL})
"""Errors of a name that this machine cannot have. In a sandbox a path may be longer than PATH_MAX."""


class NotEmpty(ValueError):
    """The folder is no new or empty folder."""


async def copy_files(
    manifest: Manifest, read: Callable[[str], Awaitable[bytes]], folder: Path
) -> dict[str, str]:
    """Copy the files of a manifest to a new or empty folder, with their permissions and times.

    Links are not made, because they could lead anywhere on this machine.

    Args:
        read: returns the content of a file of the manifest.
        folder: made if it is missing.

    Returns:
        The paths that were not copied, each with the reason.

    Raises:
        NotEmpty: the folder holds something, or is a file.
        OSError: the folder cannot be written.
    """
    await asyncio.to_thread(_prepare, folder)
    left = dict(manifest.skipped)
    for path, entry in manifest.entries.items():
        place = folder / inside(path)
        if manifest.unread(path):
            continue  # the folder that could not be read stands for it
        try:
            if entry.kind == "link":
                left[path] = f"a link to {entry.target}"
            elif entry.kind == "dir":
                await asyncio.to_thread(place.mkdir, parents=True, exist_ok=True)
            elif entry.sha256 is not None:
                await asyncio.to_thread(_write, place, entry, await read(path))
        except SnapshotsUnavailable as error:
            left[path] = str(error)
        except OSError as error:
            if error.errno not in _NAMES:
                raise
            left[path] = f"this machine cannot have a file of this name: {error.strerror}"
    return left


def _prepare(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise NotEmpty(f"{folder} is a file: name a new or an empty folder.")
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise NotEmpty(f"{folder} is not empty: name a new or an empty folder.")


def _write(place: Path, entry: Entry, content: bytes) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
    place.chmod(entry.mode & 0o777 | 0o600)
    os.utime(place, ns=(entry.mtime_ns, entry.mtime_ns))
