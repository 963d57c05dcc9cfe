"""The SQLite file of the command log: opens it, and removes old records.

One file serves all threads. Records survive SIGKILL of this process. After a power failure, the last
seconds may be missing. So a command does not wait for the disk.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from libs.sandbox.errors import RecordUnavailable
from libs.sandbox.process_owner import owner_label
from libs.sqlite_files import sqlite_hint, use_wal

__all__ = ["LogFile"]

KEPT_SECONDS = 30 * 24 * 3600.0
"""How long a record is kept."""
MOST_BYTES = 256 * 1024 * 1024
"""Bytes of results that are kept, over all threads. The oldest are removed first."""
MOST_RECORDS = 20_000
"""Records that are kept, over all threads. The oldest are removed first."""
_BETWEEN = 500
"""New records between two clean-ups."""
_PATIENCE = 5.0
"""Seconds that a write waits for a lock of another program."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS commands (
    id INTEGER PRIMARY KEY,
    thread TEXT NOT NULL,
    key TEXT NOT NULL,
    digest TEXT NOT NULL,
    state TEXT NOT NULL,
    owner TEXT NOT NULL,
    began REAL NOT NULL,
    ended REAL,
    size INTEGER NOT NULL DEFAULT 0,
    result TEXT,
    workspace TEXT NOT NULL DEFAULT '',
    UNIQUE (thread, key)
)
"""
_COLUMNS = "SELECT name FROM pragma_table_info('commands')"
_ADDED = {"ended": "ended REAL", "workspace": "workspace TEXT NOT NULL DEFAULT ''"}
"""Columns that files of earlier versions lack."""
_PRUNE = """
DELETE FROM commands WHERE state != 'running' AND id IN (
    SELECT id FROM (
        SELECT id, row_number() OVER newest AS records, sum(size) OVER newest AS bytes
        FROM commands WINDOW newest AS (ORDER BY id DESC)
    ) WHERE records > ? OR bytes > ?
)
"""


class LogFile:
    """Opened at first use. Used by one thread, except `is_open`. Several programs may share the file."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.owner = ""
        """Names this process in the records. Known while the file is open."""
        self._connection: sqlite3.Connection | None = None
        self._new = 0
        """Records since the file was opened."""

    @property
    def is_open(self) -> bool:
        """Whether `close` has work."""
        return self._connection is not None

    def opened(self) -> sqlite3.Connection:
        """Return the connection. Open the file if needed; create the file and its table."""
        if self._connection is None:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.touch(mode=0o600)
            connection = sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None)
            try:
                use_wal(connection, _PATIENCE)
                # Writes reach the kernel at once and the disk later. They survive this process.
                connection.execute("PRAGMA synchronous = NORMAL")
                connection.execute(_SCHEMA)
                _complete(connection)
            except sqlite3.Error:
                connection.close()
                raise
            self.owner = owner_label()
            self._new = 0
            self._connection = connection
        return self._connection

    def close(self) -> None:
        """Close the file, where it is open. The next `opened` opens it again."""
        connection, self._connection = self._connection, None
        if connection:
            connection.close()

    def prune(self) -> None:
        """Call this before each new record: removes old records, and the oldest records over the limits."""
        connection = self.opened()
        if self._new % _BETWEEN == 0:
            connection.execute("DELETE FROM commands WHERE began < ?", (time.time() - KEPT_SECONDS,))
            connection.execute(_PRUNE, (MOST_RECORDS, MOST_BYTES))
        self._new += 1

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Raise RecordUnavailable for errors of the file."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise RecordUnavailable(
                f"Nothing was run: the record of commands {self.path} cannot be used: {error}.",
                hint=sqlite_hint(self.path, error),
            ) from error


def _complete(connection: sqlite3.Connection) -> None:
    """Add the columns that a file of an earlier version lacks."""
    has = {name for (name,) in connection.execute(_COLUMNS)}
    for name in _ADDED.keys() - has:
        with contextlib.suppress(sqlite3.OperationalError):  # another program adds the column, too
            connection.execute(f"ALTER TABLE commands ADD COLUMN {_ADDED[name]}")
