"""Which commands have begun, and how they ended: kept on the host, so that none is run twice (S16).

One SQLite file for all threads. What is written is there after this process is killed at any moment (SIGKILL
included); after a loss of power, or a crash of the system, its last seconds may be missing. So nothing waits
for the disk but, now and then, the thread of this record.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from libs.sandbox.errors import CommandInterrupted, CommandUnderWay, KeyReused, RecordUnavailable
from libs.sandbox.strays import owner_label, owner_lives

__all__ = ["CommandRecords", "Entry"]

logger = logging.getLogger(__name__)

KEPT_SECONDS = 30 * 24 * 3600.0
"""How long a record is kept."""
MOST_BYTES = 256 * 1024 * 1024
"""Results that are kept, all threads together; the oldest go first."""
MOST_RECORDS = 20_000
"""Records that are kept, all threads together; the oldest go first."""
_BETWEEN = 500
"""New records until the next look at what is too old or too much."""
_PATIENCE = 5.0
"""Seconds that a write waits for one of another program."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS commands (
    id INTEGER PRIMARY KEY,
    thread TEXT NOT NULL,
    key TEXT NOT NULL,
    digest TEXT NOT NULL,
    state TEXT NOT NULL,
    owner TEXT NOT NULL,
    began REAL NOT NULL,
    size INTEGER NOT NULL DEFAULT 0,
    result TEXT,
    UNIQUE (thread, key)
)
"""
_FIND = "SELECT digest, state, owner, result FROM commands WHERE thread = ? AND key = ?"
_BEGIN = (
    "INSERT INTO commands (thread, key, digest, state, owner, began) VALUES (?, ?, ?, 'running', ?, ?) "
    "ON CONFLICT DO NOTHING"
)
_END = "UPDATE commands SET state = 'ended', result = ?, size = ? WHERE thread = ? AND key = ?"
_INTERRUPT = "UPDATE commands SET state = 'interrupted' WHERE thread = ? AND key = ?"
_STOP = "UPDATE commands SET state = 'stopped' WHERE thread = ? AND key = ?"
_WITHDRAW = "DELETE FROM commands WHERE thread = ? AND key = ?"
_PRUNE = """
DELETE FROM commands WHERE state != 'running' AND id IN (
    SELECT id FROM (
        SELECT id, row_number() OVER newest AS records, sum(size) OVER newest AS bytes
        FROM commands WINDOW newest AS (ORDER BY id DESC)
    ) WHERE records > ? OR bytes > ?
)
"""

Given = TypeVar("Given")

_under_way: set[tuple[str, str, str]] = set()
"""File, thread and key of what runs in this process, whichever record has begun it."""
_together = threading.Lock()
"""Held where the file and what is under way are read or changed: within this process they always agree."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One command: whose it is, its key there, and what it is."""

    thread: str
    key: str
    digest: str

    @classmethod
    def of(cls, thread: str, key: str, *asked: bytes) -> Entry:
        """`asked`: all that makes it this command and no other."""
        whole = hashlib.sha256()
        for part in asked:
            whole.update(len(part).to_bytes(8, "big"))
            whole.update(part)
        return cls(_name(thread), _name(key), whole.hexdigest())


def _name(text: str) -> str:
    """A thread's id or a key as a column has it: whatever is no short text, by its SHA-256."""
    if len(text) <= 200 and not text.startswith("~"):
        with contextlib.suppress(UnicodeEncodeError):
            text.encode()
            return text
    return "~" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class CommandRecords:
    """The record in one file, made at first use. Thread-safe; several programs may use the same file.

    All work is done by one thread of its own: callers wait for it with `wait`, or with `awaited` on an event
    loop. Its errors are RecordUnavailable.

    Args:
        path: the file. A folder that is made for it can be read by its owner alone.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self._connection: sqlite3.Connection | None = None
        self._new = 0
        self._owner = ""
        self._thread = ThreadPoolExecutor(1, "command-records")

    # -- from other threads

    def submit(self, do: Callable[..., Given], *given: object) -> Future[Given]:
        """Have the record's thread do something; in the order in which it is asked."""
        return self._thread.submit(do, *given)

    def wait(self, do: Callable[..., Given], *given: object) -> Given:
        """`submit`, and wait for what it gives."""
        return self.submit(do, *given).result()

    async def awaited(self, do: Callable[..., Given], *given: object) -> Given:
        """`wait`, without blocking the event loop. It is done even if the awaiting task is cancelled."""
        return await self.result_of(self.submit(do, *given))

    @staticmethod
    async def result_of(future: Future[Given]) -> Given:
        """What was submitted gives. Cancelling the awaiting task leaves it alone."""
        return await asyncio.shield(asyncio.wrap_future(future))

    def forget(self, thread: str) -> None:
        """Remove what is kept of a thread that is gone for good."""
        self.wait(self._forget, _name(thread))

    async def aforget(self, thread: str) -> None:
        """`forget`, without blocking the event loop."""
        await self.awaited(self._forget, _name(thread))

    def close(self) -> None:
        """Close the file, where it is open. A later call opens it again."""
        if self._connection:
            self.wait(self._disconnect)

    # -- in the record's own thread

    def find(self, entry: Entry) -> str | None:
        """The result of a command that has ended; None where it has never begun.

        Raises:
            CommandInterrupted: it has begun, and is not known to have ended.
            CommandUnderWay: it runs at this moment.
            KeyReused: the key belongs to another command.
        """
        with self._explained(), _together:
            row = self._open().execute(_FIND, (entry.thread, entry.key)).fetchone()
            runs = row is not None and row[1] == "running" and self._runs(entry, row[2])
        if row is None:
            return None
        digest, state, _, result = row
        if digest != entry.digest:
            raise KeyReused(
                "Nothing was run: the id of this call belongs to another one, which had other arguments.",
                hint="Send the call again, with an id of its own.",
            )
        if state == "ended":
            return str(result)
        if runs:
            raise CommandUnderWay(
                "This runs at this moment, for another run of the thread. It was not run a second time.",
                hint="Wait, and look at what is there before you repeat anything.",
            )
        if state == "stopped":
            raise CommandInterrupted(
                "This was stopped while it ran, on purpose, with all that it had started. How far it came is "
                "unknown. It was not run again."
            )
        raise CommandInterrupted

    def begin(self, entry: Entry) -> str | None:
        """Write down that a command begins; None where it is to be run now. Else as `find`."""
        place = self._place(entry)
        while True:
            with self._explained(), _together:
                connection = self._open()
                self._prune(connection)
                row = (entry.thread, entry.key, entry.digest, self._owner, time.time())
                if connection.execute(_BEGIN, row).rowcount:
                    _under_way.add(place)
                    return None
            found = self.find(entry)
            if found is not None:
                return found
            # Withdrawn in this moment, by another program.

    def end(self, entry: Entry, result: str) -> None:
        """Write down what came of it. Where that fails, it counts as interrupted from now on."""
        self._settle(entry, _END, result, len(result))

    def interrupt(self, entry: Entry) -> None:
        """Write down that nobody knows how far it came."""
        self._settle(entry, _INTERRUPT)

    def stop(self, entry: Entry) -> None:
        """Write down that whoever had asked for it has had it ended."""
        self._settle(entry, _STOP)

    def withdraw(self, entry: Entry) -> None:
        """Forget what was not begun after all."""
        self._settle(entry, _WITHDRAW)

    def begun(self, thread: str, keys: Sequence[str]) -> set[str]:
        """Which of these keys have been begun, however they ended."""
        with self._explained(), _together:
            connection = self._open()
            return {key for key in keys if connection.execute(_FIND, (_name(thread), _name(key))).fetchone()}

    def _settle(self, entry: Entry, statement: str, *values: object) -> None:
        with _together:
            try:
                self._open().execute(statement, (*values, entry.thread, entry.key))
            except (sqlite3.Error, OSError):
                logger.warning("the record of commands cannot be written: %s", self._path, exc_info=True)
            finally:
                _under_way.discard(self._place(entry))

    def _forget(self, thread: str) -> None:
        with self._explained():
            self._open().execute("DELETE FROM commands WHERE thread = ?", (thread,))

    def _runs(self, entry: Entry, owner: str) -> bool:
        if owner == self._owner:
            return self._place(entry) in _under_way
        return owner_lives(owner)

    def _place(self, entry: Entry) -> tuple[str, str, str]:
        return str(self._path), entry.thread, entry.key

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path.touch(mode=0o600)
            connection = sqlite3.connect(self._path, timeout=_PATIENCE, isolation_level=None)
            try:
                _use_log(connection)
                # Writes go to the system at once, to the disk later: it outlives this process.
                connection.execute("PRAGMA synchronous = NORMAL")
                connection.execute(_SCHEMA)
            except sqlite3.Error:
                connection.close()
                raise
            self._owner = owner_label()
            self._new = 0
            self._connection = connection
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection:
            connection.close()

    def _prune(self, connection: sqlite3.Connection) -> None:
        """Now and then, remove what is too old, and of the rest the oldest where it is too much."""
        self._new, due = self._new + 1, self._new % _BETWEEN == 0
        if not due:
            return
        connection.execute("DELETE FROM commands WHERE began < ?", (time.time() - KEPT_SECONDS,))
        connection.execute(_PRUNE, (MOST_RECORDS, MOST_BYTES))

    def _explained(self) -> contextlib.AbstractContextManager[None]:
        return _explained(self._path)


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


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        damaged = isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError)
        hint = (
            f"Move it away to begin anew: `mv {path} {path}.damaged`."
            if damaged
            else "Make the file and its folder writable, free some disk, or end the program that holds it."
        )
        raise RecordUnavailable(
            f"Nothing was run: the record of commands {path} cannot be used: {error}.", hint=hint
        ) from error
