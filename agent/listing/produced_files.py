"""Finds the files that a run made or changed in the workspace, from the host."""

from __future__ import annotations

import os
from pathlib import Path

from libs.sandbox import FOLDERS

__all__ = ["Listing", "is_plot", "listing", "made_since"]

Listing = dict[str, tuple[int, int, int]]
"""Path below the workspace -> modification time in ns, size in bytes, inode."""

_MOST = 20_000
_PLOTS = (".png", ".svg", ".jpg", ".jpeg", ".gif", ".webp")


def listing(workspace: Path) -> Listing:
    """Return the regular files in data/, scripts/ and results/. Blocks on the disk.

    Links are neither followed nor listed. At most 20,000 entries are read, because a command may make any
    number of files.
    """
    found: Listing = {}
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


def made_since(before: Listing, after: Listing) -> list[str]:
    """Return the sorted paths that are new or changed, without `.gitkeep`."""
    changed = (path for path, state in after.items() if before.get(path) != state)
    return sorted(path for path in changed if not path.endswith("/.gitkeep"))


def is_plot(path: str) -> bool:
    """Return whether the name is that of an image."""
    return path.lower().endswith(_PLOTS)
