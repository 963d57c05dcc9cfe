"""Finds the files that a run made or changed in the workspace: in its folder, or in two captures of it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from libs.sandbox import FOLDERS

if TYPE_CHECKING:
    from libs.workspace import Manifest

__all__ = ["Listing", "captured_listing", "is_plot", "listing", "made_since"]


class Listing(dict[str, tuple[int, int, int | str | None]]):
    """Path below the workspace -> modification time in ns, size in bytes, inode (in a capture: SHA-256)."""

    cut_at = 0
    """When the listing was made, in ns, if it does not hold all files; otherwise 0."""


_MOST = 20_000
_PLOTS = (".png", ".svg", ".jpg", ".jpeg", ".gif", ".webp")


def listing(workspace: Path) -> Listing:
    """Return the regular files in data/, scripts/ and results/. Blocks on the disk.

    Links are neither followed nor listed. At most 20,000 entries are read, because a command may make any
    number of files.
    """
    begun, found = time.time_ns(), Listing()
    left = _MOST
    folders = [name for name in FOLDERS if not (workspace / name).is_symlink()]
    while folders:
        folder = folders.pop()
        try:
            entries = os.scandir(workspace / folder)
        except OSError:  # removed meanwhile, or not readable
            continue
        with entries:
            for entry in entries:
                left -= 1
                if left < 0:
                    found.cut_at = begun
                    return found
                path = f"{folder}/{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    folders.append(path)
                elif entry.is_file(follow_symlinks=False):
                    try:
                        state = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    found[path] = (state.st_mtime_ns, state.st_size, state.st_ino)
    return found


def captured_listing(files: Manifest) -> Listing:
    """Return the files in data/, scripts/ and results/ of a capture."""
    return Listing(
        (path[1:], (entry.mtime_ns, entry.size, entry.sha256))
        for path, entry in files.entries.items()
        if entry.kind == "file" and path.split("/")[1] in FOLDERS
    )


def made_since(before: Listing, after: Listing) -> list[str]:
    """Return the sorted paths that are new or changed, without `.gitkeep`.

    If not all files were listed before, another one is new only if it was changed since.
    """
    changed = (
        path
        for path, state in after.items()
        if before.get(path) != state and (path in before or state[0] >= before.cut_at)
    )
    return sorted(path for path in changed if not path.endswith("/.gitkeep"))


def is_plot(path: str) -> bool:
    """Return whether the name is that of an image."""
    return path.lower().endswith(_PLOTS)
