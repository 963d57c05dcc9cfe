"""Prints the files of proposed skills as JSON. This program runs in the sandbox.

    python3 -I -c "$PROGRAM" /workspace/skills

The output is a list of `{"name", "files": {path: text}, "unread": [why]}`, sorted by name. No link is
followed, and only plain files are opened. Limits: 20 folders; in each 50 files and 256 KB of text. `unread`
names other files, and folders that cannot be read. `__pycache__` is left out.

Standard library only, because the source is sent to the sandbox.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MOST_FOLDERS = 20
MOST_FILES = 50
MOST_BYTES = 256 * 1024
MOST_UNREAD = 10


def proposal(folder: Path) -> dict[str, Any]:
    """Return the proposal in one folder."""
    files: dict[str, str] = {}
    unread: list[str] = []
    room = MOST_BYTES
    closed: list[OSError] = []
    for path in paths(folder, closed):
        shown = plain(str(path.relative_to(folder)))
        if len(files) == MOST_FILES:
            unread.append(f"{shown} is one of more than {MOST_FILES} files")
            break
        if len(unread) == MOST_UNREAD:
            unread.append(f"{shown} and what follows was not looked at")
            break
        try:
            content = read(path, room)
        except OSError as error:
            unread.append(f"{shown} cannot be read ({error.strerror})")
            continue
        if content is None:
            unread.append(f"{shown} is not a plain file")
        elif len(content) > room:
            unread.append(f"{shown} makes it larger than {MOST_BYTES:,} bytes")
        elif shown != str(path.relative_to(folder)):
            unread.append(f"{shown} has a name that is not text")
        else:
            try:
                files[shown] = content.decode()
                room -= len(content)
            except UnicodeDecodeError:
                unread.append(f"{shown} is not text")
    for why in closed[:MOST_UNREAD]:
        shown = plain(str(Path(why.filename).relative_to(folder)))
        unread.append(f"the folder {shown} cannot be read ({why.strerror})")
    if len(closed) > MOST_UNREAD:
        unread.append(f"{len(closed) - MOST_UNREAD} more folders cannot be read")
    return {"name": plain(folder.name), "files": files, "unread": unread}


def plain(name: str) -> str:
    """Return a name with question marks for bytes that are not UTF-8."""
    return name.encode("utf-8", "replace").decode()


def paths(folder: Path, closed: list[OSError]) -> Iterator[Path]:
    """Yield the files and links below a folder, sorted by name. Add an error for each unreadable folder."""
    for place, folders, names in os.walk(folder, onerror=closed.append):
        # `Path.is_symlink` raises an error for a path that is too long.
        links = [name for name in folders if os.path.islink(f"{place}/{name}")]  # noqa: PTH114
        folders[:] = sorted(set(folders) - {"__pycache__", *links})
        yield from (Path(place, name) for name in sorted(names + links))


def read(path: Path, room: int) -> bytes | None:
    """Return at most `room + 1` bytes of a plain file; None for anything else."""
    if not stat.S_ISREG(path.lstat().st_mode):
        return None
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(file, "rb") as opened:
        return opened.read(room + 1)


def main(folder: Path) -> None:
    """Print the proposals in a folder; an empty list if the folder does not exist."""
    there = folder.is_dir() and not folder.is_symlink()
    folders = [path for path in folder.iterdir() if path.is_dir() and not path.is_symlink()] if there else []
    chosen = sorted(path for path in folders if not path.name.startswith("."))[:MOST_FOLDERS]
    json.dump([proposal(path) for path in chosen], sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
