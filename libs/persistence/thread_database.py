"""Runs SQL statements on SQLite or Postgres, for data of threads beside their checkpoints.

The connection has a thread of its own, so callers of any event loop, or of none, can wait for it. Statements
are the same for both databases, with `?` for parameters.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, TypeVar

from libs.persistence.persistence_errors import CheckpointerUnavailable
from libs.sqlite_files import sqlite_hint, use_wal

__all__ = ["Database", "Do", "PostgresDatabase", "SqliteDatabase"]

_PATIENCE = 5
"""Seconds that a write waits for the write of another program."""

_SILENCE = 30
"""Seconds without a network acknowledgement after which the connection is given up."""

_RESTED = 5.0
"""Seconds of rest after which a connection is checked before its next use."""

Given = TypeVar("Given")
Do = Callable[..., list[tuple[Any, ...]]]
"""Runs a statement with its parameters and returns its rows."""


class Database(ABC):
    """A database, opened at its first use. Thread-safe; several programs may use the same database."""

    kind: Literal["sqlite", "postgres"]

    def __init__(self) -> None:
        self._schema: list[str] = []
        self._connection: Any = None
        self._thread = ThreadPoolExecutor(1, "database")

    def needs(self, *statements: str) -> None:
        """Add statements to run when the database is opened; each must be safe to repeat."""
        self._schema += statements

    def submit(self, work: Callable[[Do], Given], *, reads: bool = False) -> Future[Given]:
        """Run `work` in one transaction, which is committed when the future is done.

        Args:
            reads: `work` changes nothing, and does not wait for programs that do.
        """
        return self._thread.submit(self._carry_out, work, reads)

    def wait(self, work: Callable[[Do], Given]) -> Given:
        """Run `work` in one transaction and wait for its end.

        Raises:
            CheckpointerUnavailable: the database cannot be used.
        """
        return self.submit(work).result()

    async def awaited(self, work: Callable[[Do], Given], *, reads: bool = False) -> Given:
        """`wait` without blocking the event loop. A cancelled caller does not stop the work."""
        return await asyncio.shield(asyncio.wrap_future(self.submit(work, reads=reads)))

    def close(self) -> None:
        """Close the connection. A later call opens it again."""
        self._thread.submit(self._disconnect).result()

    @abstractmethod
    def serialize(self, do: Do) -> None:
        """Let the transactions that call this first run one after the other, in all programs."""

    @abstractmethod
    def _connect(self) -> Any: ...

    @abstractmethod
    def _explained(self, error: Exception) -> CheckpointerUnavailable | None:
        """Explain an error of the database; return None for any other error."""

    @abstractmethod
    def _do(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]: ...

    @abstractmethod
    def _transaction(self, work: Callable[[Do], Given], *, reads: bool) -> Given: ...

    def _carry_out(self, work: Callable[[Do], Given], reads: bool) -> Given:
        try:
            if self._connection is None:
                self._connection = self._connect()
                self._make_tables()
            return self._transaction(work, reads=reads)
        except Exception as error:
            explained = self._explained(error)
            if explained is None:
                raise
            self._disconnect()
            raise explained from error

    def _make_tables(self) -> None:
        self._transaction(lambda do: [do(statement) for statement in self._schema], reads=False)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class SqliteDatabase(Database):
    """A file. A missing file is created, in a folder that only its owner can read."""

    kind = "sqlite"

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path.absolute()
        self._file: tuple[int, int] | None = None
        """Device and inode of the open file."""

    def serialize(self, do: Do) -> None:
        pass  # SQLite's transactions begin with a lock of the file

    def _connect(self) -> sqlite3.Connection:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path.touch(mode=0o600)
        # `close` may be called from another thread.
        connection = sqlite3.connect(
            self._path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
        )
        try:
            use_wal(connection, _PATIENCE)
            # Writes reach the system at once and the disk later: they survive a kill, not a loss of power.
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

    def _transaction(self, work: Callable[[Do], Given], *, reads: bool) -> Given:
        # SQLite does not notice that an open file was removed; its writes would be lost.
        if self._found() != self._file:
            raise FileNotFoundError("another file has taken its place")
        self._connection.execute("BEGIN" if reads else "BEGIN IMMEDIATE")
        try:
            done = work(self._do)
        except BaseException:
            if self._connection.in_transaction:  # SQLite itself ends one that a full disk stops
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
        else:
            hint = sqlite_hint(self._path, error)
        return CheckpointerUnavailable(f"{self._path} cannot be used: {why}.", hint=hint)


class PostgresDatabase(Database):
    """A database at a URL. No message shows the URL, because it may hold a password."""

    kind = "postgres"

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self._used = 0.0

    def _connect(self) -> Any:
        import psycopg

        connection = psycopg.connect(
            self._url, autocommit=True, connect_timeout=10, tcp_user_timeout=_SILENCE * 1000
        )
        connection.execute(f"SET lock_timeout = '{_PATIENCE}s'".encode())
        connection.execute("SET jit = off")  # compiling these statements takes longer than running them
        return connection

    def _make_tables(self) -> None:
        # Without a lock, one of two programs that create the same table at once would fail.
        self._connection.execute("SELECT pg_advisory_lock(%s)", (_MAKING,))
        try:
            super()._make_tables()
        finally:
            self._connection.execute("SELECT pg_advisory_unlock(%s)", (_MAKING,))

    def serialize(self, do: Do) -> None:
        do("SELECT pg_advisory_xact_lock(?)", _SERIAL)

    def _do(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        cursor = self._connection.execute(statement.replace("?", "%s"), parameters)
        return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    def _transaction(self, work: Callable[[Do], Given], *, reads: bool) -> Given:  # noqa: ARG002
        with self._connection.transaction():
            return work(self._do)

    def _carry_out(self, work: Callable[[Do], Given], reads: bool) -> Given:
        if self._connection is not None and time.monotonic() - self._used > _RESTED:
            self._look()
        try:
            return super()._carry_out(work, reads)
        finally:
            self._used = time.monotonic()

    def _look(self) -> None:
        """Drop a connection that broke while it rested, for example by a restart of the database."""
        import psycopg

        try:
            self._connection.execute("SELECT 1")
        except psycopg.Error:
            self._disconnect()

    def _explained(self, error: Exception) -> CheckpointerUnavailable | None:
        import psycopg

        # A DataError is the caller's mistake.
        if not isinstance(error, psycopg.Error) or isinstance(error, psycopg.DataError):
            return None
        why = (str(error).strip().splitlines() or [type(error).__name__])[0].strip().rstrip(".")
        return CheckpointerUnavailable(
            f"The database at DATABASE_URL cannot be used: {why}.",
            hint="Start it, or correct DATABASE_URL; its user must be allowed to make tables, and no other "
            "program may hold them for long.",
        )


_MAKING = 0x636F6467
_SERIAL = 0x636F6468
"""Arbitrary numbers for advisory locks that no other program of the database uses."""
