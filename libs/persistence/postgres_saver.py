"""Keeps threads in Postgres, for several machines or where a database exists already."""

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
from psycopg_pool import AsyncConnectionPool

from libs.persistence.persistence_errors import CheckpointerUnavailable
from libs.persistence.saver_statements import POSTGRES, Do, tables
from libs.persistence.served_saver import ServedSaver

__all__ = ["PostgresSaver", "open_postgres"]

_CONNECTIONS = 4
_TRIES = 50
_SETUP_LOCK, _SERVER_LOCK = 0x636F6465, 0x636F6466
"""Arbitrary numbers for advisory locks that no other program of this database uses."""


class PostgresSaver(ServedSaver, AsyncPostgresSaver):
    """LangGraph's saver for Postgres with the methods of `ServedSaver`."""

    spelling = POSTGRES
    conn: AsyncConnectionPool[AsyncConnection[DictRow]]
    """Not a single connection; see `open_postgres`."""
    url: str
    """URL of the database; holds the password."""

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Do]:
        """Run several statements in one transaction."""
        async with (
            self.lock,
            self.conn.connection() as connection,
            connection.cursor(binary=True, row_factory=dict_row) as cursor,
            connection.transaction(),
        ):

            async def do(statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
                await cursor.execute(statement.replace("?", "%s").encode(), parameters)
                return [tuple(row.values()) for row in await cursor.fetchall()] if cursor.description else []

            yield do

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Be the only server of this database. Raises CheckpointerUnavailable."""
        async with await AsyncConnection.connect(self.url, autocommit=True, row_factory=dict_row) as held:
            for _ in range(_TRIES):  # the database may still hold the lock of a server that was killed
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
    """Open the saver that keeps threads in the database at `url`, and create missing tables.

    A broken connection is replaced, for example after a restart of the database.

    Args:
        url: `postgresql://user:password@host:port/database`.
        timeout: seconds to wait for the database, now and for each connection.

    Raises:
        CheckpointerUnavailable: the database cannot be reached, or this user may not create tables. The
            message does not hold the password.
    """
    options: dict[str, Any] = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    try:
        async with await AsyncConnection.connect(url, connect_timeout=int(timeout), **options) as connection:
            await _set_up(connection)
    except psycopg.Error as error:
        raise CheckpointerUnavailable(
            f"The database {_place(url)} cannot be used: {_line(error)}.",
            hint="Start it, or correct DATABASE_URL; its user must be allowed to make tables.",
        ) from None
    connections: AsyncConnectionPool[AsyncConnection[DictRow]] = AsyncConnectionPool(
        url,
        kwargs=options,
        min_size=1,
        max_size=_CONNECTIONS,
        timeout=timeout,
        open=False,
        check=AsyncConnectionPool.check_connection,
    )
    async with connections as pool:
        saver = PostgresSaver(pool)
        saver.url = url
        yield saver


async def _set_up(connection: AsyncConnection[DictRow]) -> None:
    """Create missing tables; several programs may start at once."""
    # Polled: a blocking wait for the lock would itself block the creation of an index.
    while not await _locked(connection, _SETUP_LOCK):  # noqa: ASYNC110 held by another program
        await asyncio.sleep(0.1)
    await AsyncPostgresSaver(connection).setup()
    for statement in tables(POSTGRES):
        await connection.execute(statement.encode())


async def _locked(connection: AsyncConnection[DictRow], number: int) -> bool:
    cursor = await connection.execute("SELECT pg_try_advisory_lock(%s) AS locked", (number,))
    row = await cursor.fetchone()
    return bool(row and row["locked"])


def _place(url: str) -> str:
    """Return the database and its host, without user and password."""
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise CheckpointerUnavailable(
            "DATABASE_URL cannot be read.", hint="It must be postgresql://user:password@host:port/database."
        ) from error
    return f"{given.get('dbname', '')} at {given.get('host', 'localhost')}"


def _line(error: psycopg.Error) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].strip().rstrip(".") if lines else type(error).__name__
