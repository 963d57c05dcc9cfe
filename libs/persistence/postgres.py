"""Threads in Postgres, for an installation of several machines or one with a database anyway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from libs.persistence.errors import CheckpointerUnavailable
from libs.persistence.served_saver import ServedSaver
from libs.persistence.statements import POSTGRES, Do, tables

__all__ = ["PostgresSaver", "open_postgres"]

_CONNECTIONS = 4
_TRIES = 50
_SETUP_LOCK, _SERVER_LOCK = 0x636F6465, 0x636F6466
"""Any numbers that no other program of this database locks."""


class PostgresSaver(ServedSaver, AsyncPostgresSaver):
    """LangGraph's saver for Postgres, with what a server asks of one besides."""

    spelling = POSTGRES
    url: str
    """Where the database is; holds the password."""

    async def setup(self) -> None:
        """Make the tables where they are missing; several programs may start at once."""
        async with self._cursor() as cursor:
            connection = cursor.connection
            # Not a lock that is waited for: making an index waits for whoever waits for the lock.
            while not await _locked(connection, _SETUP_LOCK):  # noqa: ASYNC110 by a program that tells nobody
                await asyncio.sleep(0.1)
            try:
                await AsyncPostgresSaver(connection).setup()
                for statement in tables(POSTGRES):
                    await connection.execute(statement.encode())
            finally:
                await connection.execute("SELECT pg_advisory_unlock(%s)", (_SETUP_LOCK,))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Do]:
        """Several statements that happen together or not at all."""
        async with self._cursor() as cursor, cursor.connection.transaction():

            async def do(statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
                await cursor.execute(statement.replace("?", "%s").encode(), parameters)
                return [tuple(row.values()) for row in await cursor.fetchall()] if cursor.description else []

            yield do

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Be the only server of this database. Raises CheckpointerUnavailable."""
        async with await AsyncConnection.connect(self.url, autocommit=True, row_factory=dict_row) as held:
            for _ in range(_TRIES):  # the database may not have noticed yet that the last one was killed
                if await _locked(held, _SERVER_LOCK):
                    break
                await asyncio.sleep(0.1)
            else:
                raise CheckpointerUnavailable(
                    f"Another server works with the threads in the database {_place(self.url)}.",
                    hint="End it, or give this one another DATABASE_URL.",
                )
            yield


@asynccontextmanager
async def open_postgres(url: str, *, timeout: float = 10) -> AsyncIterator[PostgresSaver]:
    """Open the checkpointer that keeps threads in the database at `url`; the tables are made where missing.

    A connection that broke is replaced, as after a restart of the database.

    Args:
        url: `postgresql://user:password@host:port/database`.
        timeout: seconds to wait for the database, now and for each connection.

    Raises:
        CheckpointerUnavailable: it cannot be reached, or does not let this user make tables. The message does
            not hold the password.
    """
    place = _place(url)
    pool: AsyncConnectionPool[AsyncConnection[DictRow]] = AsyncConnectionPool(
        url,
        kwargs={"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row},
        min_size=1,
        max_size=_CONNECTIONS,
        timeout=timeout,
        open=False,
        check=AsyncConnectionPool.check_connection,
    )
    try:
        try:
            await pool.open(wait=True, timeout=timeout)
            saver = PostgresSaver(pool)
            saver.url = url
            await saver.setup()
        except PoolTimeout:
            why = await _why_not(url)
            raise CheckpointerUnavailable(
                f"The database {place} cannot be reached: {why}.",
                hint="Start it, or correct DATABASE_URL.",
            ) from None
        except psycopg.Error as error:
            raise CheckpointerUnavailable(
                f"The database {place} cannot be used: {_line(error)}.",
                hint="Its user must be allowed to make tables.",
            ) from None
        yield saver
    finally:
        await pool.close()


async def _locked(connection: AsyncConnection[DictRow], number: int) -> bool:
    cursor = await connection.execute("SELECT pg_try_advisory_lock(%s) AS locked", (number,))
    row = await cursor.fetchone()
    return bool(row and row["locked"])


def _place(url: str) -> str:
    """Database and host, as they may be shown."""
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise CheckpointerUnavailable(
            "DATABASE_URL cannot be read.", hint="It must be postgresql://user:password@host:port/database."
        ) from error
    return f"{given.get('dbname', '')} at {given.get('host', 'localhost')}"


async def _why_not(url: str) -> str:
    """What the database, or the way to it, says: a pool only tells that the time is up."""
    try:
        async with await AsyncConnection.connect(url, connect_timeout=5):
            return "it answered too late"
    except psycopg.Error as error:
        return _line(error)


def _line(error: psycopg.Error) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].strip().rstrip(".") if lines else type(error).__name__
