"""A database for what belongs to threads beside their checkpoints: SQLite, or Postgres.

One connection in a thread of its own: callers on any event loop, or on none, wait for it. Statements are the
same for both, with `?` for parameters.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, TypeVar

from libs.persistence.errors import CheckpointerUnavailable

__all__ = ["Database", "Do", "PostgresDatabase", "SqliteDatabase"]

_PATIENCE = 5
"""Seconds that a write waits for one of another program."""

_SILENCE = 30
"""Seconds after which a database that acknowledges nothing over the network is given up."""

_RESTED = 5.0
"""Seconds after which it is looked whether a connection has broken meanwhile."""

Given = TypeVar("Given")
Do = Callable[..., list[tuple[Any, ...]]]
"""Carries out a statement with its parameters, and gives its rows."""


class Database(ABC):
    """Opened at first use. Thread-safe; several programs may use the same one."""

    kind: Literal["sqlite", "postgres"]

    def __init__(self, schema: Sequence[str] = ()) -> None:
        self._schema = list(schema)
        self._connection: Any = None
        self._thread = ThreadPoolExecutor(1, "database")

    def needs(self, *statements: str) -> None:
        """Have statements carried out when it is opened, each harmless where that was done before."""
        self._schema += statements

    def submit(self, work: Callable[[Do], Given]) -> Future[Given]:
        """Do something in one transaction: all of it is kept when the future is done, or nothing."""
        return self._thread.submit(self._carry_out, work)

    def wait(self, work: Callable[[Do], Given]) -> Given:
        """`submit`, and wait.

        Raises:
            CheckpointerUnavailable: the database cannot be used.
        """
        return self.submit(work).result()

    async def awaited(self, work: Callable[[Do], Given]) -> Given:
        """`wait`, without blocking the event loop. It is done even if the awaiting task is cancelled."""
        return await asyncio.shield(asyncio.wrap_future(self.submit(work)))

    def close(self) -> None:
        """Close it, where it is open. A later call opens it again."""
        self._thread.submit(self._disconnect).result()

    @abstractmethod
    def _connect(self) -> Any: ...

    @abstractmethod
    def _explained(self, error: Exception) -> CheckpointerUnavailable | None:
        """What an error of the database means; None for any other error."""

    @abstractmethod
    def _do(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]: ...

    @abstractmethod
    def _transaction(self, work: Callable[[Do], Given]) -> Given: ...

    def _carry_out(self, work: Callable[[Do], Given]) -> Given:
        try:
            if self._connection is None:
                self._open()
            return self._transaction(work)
        except Exception as error:
            explained = self._explained(error)
            if explained is None:
                raise
            self._disconnect()
            raise explained from error

    def _open(self) -> None:
        self._connection = self._connect()
        try:
            self._make_tables()
        except BaseException:
            self._disconnect()
            raise

    def _make_tables(self) -> None:
        self._transaction(lambda do: [do(statement) for statement in self._schema])

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class SqliteDatabase(Database):
    """A file, made where missing with a folder that its owner alone can read."""

    kind = "sqlite"

    def __init__(self, path: Path, schema: Sequence[str] = ()) -> None:
        super().__init__(schema)
        self._path = path.absolute()
        self._file: tuple[int, int] | None = None
        """Which file is open."""

    def _connect(self) -> sqlite3.Connection:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path.touch(mode=0o600)
        # Closed by whoever ends this, which need not be its thread.
        connection = sqlite3.connect(
            self._path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
        )
        try:
            _use_log(connection)
            # To the system at once, to the disk later: it outlives this process.
            connection.execute("PRAGMA synchronous = NORMAL")
            self._file = self._found()
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _found(self) -> tuple[int, int]:
        found = self._path.stat()
        return found.st_dev, found.st_ino

    def _do(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._connection.execute(statement, parameters).fetchall()]

    def _transaction(self, work: Callable[[Do], Given]) -> Given:
        # Of one that was removed while it is open, SQLite says nothing, and what it is given is lost.
        if self._found() != self._file:
            raise FileNotFoundError("another file has taken its place")
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            done = work(self._do)
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")
        return done

    def _explained(self, error: Exception) -> CheckpointerUnavailable | None:
        if not isinstance(error, sqlite3.Error | OSError):
            return None
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        if isinstance(error, FileNotFoundError):
            hint = "It was removed while it was in use: put it back, or go on with a new one."
        elif isinstance(error, sqlite3.OperationalError | OSError):  # read-only, locked, disk full
            hint = "Make the file and its folder writable, free some disk, or end the program that holds it."
        else:
            hint = f"Move it away to begin anew: `mv {self._path} {self._path}.damaged`."
        return CheckpointerUnavailable(f"{self._path} cannot be used: {why}.", hint=hint)


class PostgresDatabase(Database):
    """A database at a URL, which may hold a password: no message shows it."""

    kind = "postgres"

    def __init__(self, url: str, schema: Sequence[str] = ()) -> None:
        super().__init__(schema)
        self._url = url
        self._used = 0.0

    def _connect(self) -> Any:
        import psycopg

        connection = psycopg.connect(
            self._url, autocommit=True, connect_timeout=10, tcp_user_timeout=_SILENCE * 1000
        )
        connection.execute(f"SET lock_timeout = '{_PATIENCE}s'".encode())
        connection.execute("SET jit = off")  # to compile these statements takes longer than to do them
        return connection

    def _make_tables(self) -> None:
        # Of two programs that make the same table at once, one would fail.
        self._connection.execute("SELECT pg_advisory_lock(%s)", (_MAKING,))
        try:
            super()._make_tables()
        finally:
            self._connection.execute("SELECT pg_advisory_unlock(%s)", (_MAKING,))

    def _do(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        cursor = self._connection.execute(statement.replace("?", "%s"), parameters)
        return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    def _transaction(self, work: Callable[[Do], Given]) -> Given:
        with self._connection.transaction():
            return work(self._do)

    def _carry_out(self, work: Callable[[Do], Given]) -> Given:
        if self._connection is not None and time.monotonic() - self._used > _RESTED:
            self._look()
        try:
            return super()._carry_out(work)
        finally:
            self._used = time.monotonic()

    def _look(self) -> None:
        """Let go of a connection that broke while it rested, as after a restart of the database."""
        import psycopg

        try:
            self._connection.execute("SELECT 1")
        except psycopg.Error:
            self._disconnect()

    def _explained(self, error: Exception) -> CheckpointerUnavailable | None:
        import psycopg

        # What was asked is wrong, not the database.
        if not isinstance(error, psycopg.Error) or isinstance(error, psycopg.DataError):
            return None
        why = (str(error).strip().splitlines() or [type(error).__name__])[0].strip().rstrip(".")
        return CheckpointerUnavailable(
            f"The database at DATABASE_URL cannot be used: {why}.",
            hint="Start it, or correct DATABASE_URL; its user must be allowed to make tables, and no other "
            "program may hold them for long.",
        )


_MAKING = 0x636F6467
"""Any number that no other program of the database locks."""


def _use_log(connection: sqlite3.Connection) -> None:
    """Have a log of writes beside the file. Where two make it at once, SQLite refuses instead of waiting."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return
