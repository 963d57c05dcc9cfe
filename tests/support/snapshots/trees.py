"""Reads a folder as a value, to compare a restored workspace with the workspace as it was."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from libs.workspace.manifest import shown

__all__ = ["Tree", "tree"]

Tree = dict[str, tuple[Any, ...]]
"""Shown path -> kind, mode, and time and content of a file, or a link's target."""


def tree(root: Path) -> Tree:
    """Return what a folder holds."""
    found: Tree = {}
    for above, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(above) / name
            state = path.lstat()
            where = shown(os.path.relpath(path, root))
            mode = stat.S_IMODE(state.st_mode)
            if stat.S_ISLNK(state.st_mode):
                found[where] = "link", str(path.readlink())
            elif stat.S_ISDIR(state.st_mode):
                found[where] = "dir", mode
            elif stat.S_ISREG(state.st_mode):
                found[where] = "file", mode, state.st_mtime_ns, path.read_bytes()
            else:
                found[where] = "special", stat.S_IFMT(state.st_mode)
    return found
