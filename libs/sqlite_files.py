"""SQLite files that several programs use at the same time."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

__all__ = ["sqlite_hint", "use_wal"]


def use_wal(connection: sqlite3.Connection, seconds: float) -> None:
    """Change a file to WAL mode; try for `seconds`.

    If two programs do this at the same time, SQLite refuses one at once, whatever its timeout, because each
    would wait for the other (https://www.sqlite.org/c3ref/busy_handler.html). That program tries again.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
        time.sleep(0.01)


def sqlite_hint(path: Path, error: Exception) -> str:
    """Say what to do about a file that SQLite cannot use."""
    if isinstance(error, sqlite3.OperationalError | OSError):  # read-only, locked, disk full
        return "Make the file and its folder writable, free some disk, or end the program that holds it."
    return f"Move it away to begin anew: `mv {path} {path}.damaged`."
