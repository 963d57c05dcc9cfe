"""Threads in one SQLite file: every message, checkpoint and pending approval."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiosqlite
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from libs.persistence.errors import CheckpointerUnavailable
from libs.persistence.served_saver import ServedSaver
from libs.persistence.statements import SQLITE, Do, tables
from libs.persistence.thread_lock import ThreadInUse, thread_lock

__all__ = ["CheckpointerUnavailable", "SqliteSaver", "open_checkpointer"]


class SqliteSaver(ServedSaver, AsyncSqliteSaver):
    """LangGraph's saver for SQLite, with what a server asks of one besides."""

    spelling = SQLITE
    path: Path
    """The file."""

    async def setup(self) -> None:
        """Make the tables where they are missing."""
        if self.is_setup:
            return
        await super().setup()
        async with self.transaction() as do:
            for statement in tables(SQLITE):
                await do(statement)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Do]:
        """Several statements that happen together or not at all; nobody else writes meanwhile."""

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
    """Open the checkpointer that keeps threads in `path`; the file and its folder are made where missing.

    The folder that is made can be read by its owner alone: conversations may hold anything. The file is in
    WAL mode, so several programs may use it at once; a writer waits up to 5 seconds for another.

    Raises:
        CheckpointerUnavailable: the folder cannot be made, the file cannot be written, or it is damaged.
    """
    try:
        # First without aiosqlite: its thread outlives a failed attempt, and complains to a closed loop.
        await asyncio.to_thread(_make, path)
        connection = await aiosqlite.connect(path)
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
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    sqlite3.connect(path).close()


def _explained(path: Path, error: sqlite3.Error) -> CheckpointerUnavailable:
    if isinstance(error, sqlite3.OperationalError):  # not to be opened, read-only, locked, disk full
        hint = "Make the file and its folder writable, free some disk, or end the program that holds it."
    else:
        hint = f"Move it away to begin anew: `mv {path} {path}.damaged`."
    return CheckpointerUnavailable(f"The file of threads {path} cannot be used: {error}.", hint=hint)
