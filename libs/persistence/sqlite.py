"""Threads in one SQLite file: every message, checkpoint and pending approval."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiosqlite
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

__all__ = ["CheckpointerUnavailable", "open_checkpointer"]


class CheckpointerUnavailable(Exception):
    """The file of threads cannot be used. `str(error)` says why, `hint` what mends it."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@asynccontextmanager
async def open_checkpointer(path: Path) -> AsyncIterator[AsyncSqliteSaver]:
    """Open the checkpointer that keeps threads in `path`; the file and its folder are made where missing.

    The folder that is made can be read by its owner alone: conversations may hold anything. The file is in
    WAL mode, so several programs may use it at once; a writer waits up to 5 seconds for another.

    Raises:
        CheckpointerUnavailable: the folder cannot be made, the file cannot be written, or it is damaged.
    """
    try:
        await asyncio.to_thread(path.parent.mkdir, mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise CheckpointerUnavailable(
            f"The folder {path.parent} for threads cannot be made: {error.strerror}.",
            hint="Run this in a folder that you may write to.",
        ) from error
    try:
        # First without aiosqlite: its thread outlives a failed attempt, and complains to a closed loop.
        await asyncio.to_thread(lambda: sqlite3.connect(path).close())
        connection = await aiosqlite.connect(path)
    except sqlite3.Error as error:
        raise _explained(path, error) from error
    try:
        saver = AsyncSqliteSaver(connection)
        try:
            await saver.setup()
        except sqlite3.Error as error:
            raise _explained(path, error) from error
        yield saver
    finally:
        await connection.close()


def _explained(path: Path, error: sqlite3.Error) -> CheckpointerUnavailable:
    if isinstance(error, sqlite3.OperationalError):  # not to be opened, read-only, locked, disk full
        hint = "Make the file and its folder writable, free some disk, or end the program that holds it."
    else:
        hint = f"Move it away to begin anew: `mv {path} {path}.damaged`."
    return CheckpointerUnavailable(f"The file of threads {path} cannot be used: {error}.", hint=hint)
