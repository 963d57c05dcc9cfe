"""Print a short listing of a folder: files, sizes, and the columns of tables. Runs in the sandbox.

    python3 list_data.py /data

Standard library only, because it is sent there as it is. At most 40 files and about 6,000 characters; of each
file at most the first 256 kB are read. Nothing but regular files is opened; hidden ones are left out.
"""

from __future__ import annotations

import csv
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

MAX_FILES = 40
MAX_CHARS = 6_000
MAX_NAMES = 40
MAX_NAME_CHARS = 60
MAX_PATH_CHARS = 250
HEAD_BYTES = 262_144


def plain(text: object, limit: int = MAX_NAME_CHARS) -> str:
    """A name on one line: what files are called, and their columns, is chosen by whoever made them."""
    shown = "".join(char if char.isprintable() else "?" for char in str(text))
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def keys(value: Any) -> list[Any]:
    """The columns of one record, or of a list of records."""
    if isinstance(value, list) and value:
        return keys(value[0]) if isinstance(value[0], dict) else []
    return list(value) if isinstance(value, dict) else []


def columns(path: Path, size: int) -> list[Any]:
    """The names of a table's columns, none where it is no table that can be read."""
    kind = path.suffix.lower()
    if kind not in {".csv", ".tsv", ".json", ".jsonl", ".ndjson"}:
        return []
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        head = file.read(HEAD_BYTES)
    try:
        if kind == ".csv":
            first = head.split("\n", 1)[0]
            separator = max(",;\t|", key=first.count)
            return next(csv.reader([first], delimiter=separator), [])
        if kind == ".tsv":
            return head.split("\n", 1)[0].rstrip("\r").split("\t")
        if kind == ".json":
            return keys(json.loads(head)) if size <= HEAD_BYTES else []
        return keys(json.loads(head.split("\n", 1)[0]))
    except (ValueError, RecursionError, csv.Error):
        return []


def describe(path: Path) -> str | None:
    """One line about a file; None where it is no regular file."""
    try:
        state = path.lstat()
        if not stat.S_ISREG(state.st_mode):
            return None
        names = columns(path, state.st_size)
    except OSError:
        return None
    line = f"{plain(path, MAX_PATH_CHARS)} ({state.st_size:,} bytes)"
    if names:
        line += ": " + ", ".join(plain(name) for name in names[:MAX_NAMES])
        line += f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return line


def main(folder: str) -> None:
    """Print the listing of `folder`, nothing where it is empty or missing."""
    lines: list[str] = []
    room, left_out = MAX_CHARS, 0
    for parent, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(name for name in files if not name.startswith(".")):
            if len(lines) >= MAX_FILES or room <= 0:
                left_out += 1
                continue
            if line := describe(Path(parent, name)):
                lines.append(line)
                room -= len(line)
        if left_out > MAX_FILES:
            break
    if left_out:
        lines.append(f"and more: ls -R {folder}")
    sys.stdout.buffer.write("\n".join(lines).encode("utf-8", "replace"))


if __name__ == "__main__":
    main(sys.argv[1])
