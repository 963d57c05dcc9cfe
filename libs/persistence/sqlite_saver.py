"""Keeps threads in one SQLite file: messages, checkpoints and pending approvals."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import aiosqlite
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from libs.persistence.locked_thread import ThreadInUse, thread_lock
from libs.persistence.persistence_errors import CheckpointerUnavailable
from libs.persistence.saver_statements import SQLITE, Do, tables
from libs.persistence.served_saver import ServedSaver
from libs.sqlite_files import sqlite_hint, use_wal

__all__ = ["CheckpointerUnavailable", "SqliteSaver", "open_checkpointer"]

_BUSY_SECONDS = 5.0
"""Seconds that a program waits for another one that writes the same file."""


class SqliteSaver(ServedSaver, AsyncSqliteSaver):
    """LangGraph's saver for SQLite with the methods of `ServedSaver`."""

    spelling = SQLITE
    path: Path
    """The file."""

    async def setup(self) -> None:
        """Create missing tables."""
        if self.is_setup:
            return
        await super().setup()
        async with self.transaction() as do:
            for statement in tables(SQLITE):
                await do(statement)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Do]:
        """Run several statements in one transaction; no other task of this process writes meanwhile."""

        async def do(statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
            async with self.conn.execute(statement, parameters) as cursor:
                return [tuple(row) for row in await cursor.fetchall()]

        async with self.lock:
            try:
                yield do
            except BaseException:
                await self.conn.rollback()
                raise
            await self.conn.commit()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Be the only server of this file. Raises CheckpointerUnavailable."""
        held = ExitStack()
        lock = thread_lock(self.path.parent / "locks", f"{self.path.name}, the server")
        try:
            await asyncio.to_thread(held.enter_context, lock)
        except ThreadInUse:
            raise CheckpointerUnavailable(
                f"Another server works with the threads in {self.path.absolute()}.",
                hint="End it, or start this one in another folder.",
            ) from None
        try:
            yield
        finally:
            await asyncio.to_thread(held.close)


@asynccontextmanager
async def open_checkpointer(path: Path) -> AsyncIterator[SqliteSaver]:
    """Open the saver that keeps threads in `path`; create the file and its folder if missing.

    Only the owner can read a folder created here: conversations may hold private data. The file is in WAL
    mode, so several programs may use it at once; a writer waits up to 5 seconds for another.

    Raises:
        CheckpointerUnavailable: the folder cannot be created, the file cannot be written or is damaged.
    """
    try:
        # First without aiosqlite: after a failure, its thread would live on and call into a closed loop.
        await asyncio.to_thread(_make, path)
        connection = await aiosqlite.connect(path, timeout=_BUSY_SECONDS)
    except OSError as error:
        raise CheckpointerUnavailable(
            f"The folder {path.parent} for threads cannot be made: {error.strerror}.",
            hint="Run this in a folder that you may write to.",
        ) from error
    except sqlite3.Error as error:
        raise _explained(path, error) from error
    try:
        saver = SqliteSaver(connection)
        saver.path = path
        try:
            await saver.setup()
        except sqlite3.Error as error:
            raise _explained(path, error) from error
        yield saver
    finally:
        await connection.close()


def _make(path: Path) -> None:
    """Create the file, in WAL mode."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with closing(sqlite3.connect(path, timeout=_BUSY_SECONDS)) as connection:
        use_wal(connection, _BUSY_SECONDS)


def _explained(path: Path, error: sqlite3.Error) -> CheckpointerUnavailable:
    why = f"The file of threads {path} cannot be used: {error}."
    return CheckpointerUnavailable(why, hint=sqlite_hint(path, error))
