"""Records on the host which commands have begun and how they ended, so that no command runs twice."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import math
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from libs.sandbox.errors import (
    CommandInterrupted,
    CommandStopped,
    CommandUnderWay,
    KeyReused,
)
from libs.sandbox.host.records.log_file import LogFile
from libs.sandbox.process_owner import owner_lives

__all__ = ["CommandRecords", "Entry", "process_ends", "process_is_ending"]

logger = logging.getLogger(__name__)

_OTHERS = (
    "SELECT thread, began, ended, state FROM commands "
    "WHERE owner <> ?1 AND coalesce(ended, ?2) >= ?3 AND (?4 IS NULL OR workspace IN ('', ?4))"
)
_EARLIER = "SELECT 1 FROM commands WHERE thread = ? AND owner <> ? LIMIT 1"
_RUNNING = "SELECT DISTINCT owner FROM commands WHERE state = 'running' AND owner <> ?"
_LOST = "UPDATE commands SET state = 'lost', ended = ? WHERE state = 'running' AND owner = ?"
_FIND = "SELECT digest, state, owner, result FROM commands WHERE thread = ? AND key = ?"
_BEGIN = (
    "INSERT INTO commands (thread, key, digest, state, owner, began, workspace) "
    "VALUES (?, ?, ?, 'running', ?, ?, ?) ON CONFLICT DO NOTHING"
)
_SETTLE = "UPDATE commands SET state = ?, result = ?, size = ?, ended = ? WHERE thread = ? AND key = ?"
_NOTE = (
    "INSERT INTO commands (thread, key, digest, state, owner, began, ended, size, result) "
    "VALUES (?, ?, ?, 'ended', ?, ?, 0, ?, ?) ON CONFLICT DO NOTHING"
)
_WITH_SUFFIX = "SELECT key FROM commands WHERE thread = ? AND key LIKE '%' || ?"
_FORGET = "DELETE FROM commands WHERE thread = ? AND began >= ?"
_WITHDRAW = "DELETE FROM commands WHERE thread = ? AND key = ?"
Given = TypeVar("Given")

_under_way: set[tuple[str, str, str]] = set()
"""File, thread and key of each command that runs in this process."""
_unwritten: dict[tuple[str, str, str], tuple[str, tuple[object, ...]]] = {}
"""File, thread and key of each command whose end could not be recorded -> the statement that records it."""
_together = threading.Lock()
"""Held while the file, `_under_way` and `_unwritten` are read or changed together."""
_ending = threading.Event()
"""Set when this process ends."""


def process_is_ending() -> bool:
    """Return whether `process_ends` was called."""
    return _ending.is_set()


def process_ends() -> None:
    """Record calls that are cancelled from now on as interrupted, not as stopped by the caller."""
    _ending.set()


@dataclass(frozen=True, slots=True)
class Entry:
    """One command: its thread, its key, and a digest of its content."""

    thread: str
    key: str
    digest: str

    @classmethod
    def of(cls, thread: str, key: str, *asked: bytes) -> Entry:
        """`asked`: everything that distinguishes this command from others."""
        whole = hashlib.sha256()
        for part in asked:
            whole.update(len(part).to_bytes(8, "big"))
            whole.update(part)
        return cls(_name(thread), _name(key), whole.hexdigest())


def _name(text: str) -> str:
    """Return the column value for a thread id or a key: short text as is, other text as its SHA-256."""
    if len(text) <= 200 and not text.startswith("~"):
        with contextlib.suppress(UnicodeEncodeError):
            text.encode()
            return text
    return "~" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class CommandRecords:
    """The command log in one file, created at first use. Thread-safe. Several programs may share the file.

    One worker thread does all work. Callers wait with `awaited`. Errors are RecordUnavailable.

    Args:
        path: the file. A new folder for it is readable by its owner only.
    """

    def __init__(self, path: Path) -> None:
        self._file = LogFile(path)
        self._thread = ThreadPoolExecutor(1, "command-records")

    # -- for callers in other threads

    def submit(self, do: Callable[..., Given], *given: object) -> Future[Given]:
        """Run `do` in the worker thread. Calls run in the order of submission."""
        return self._thread.submit(do, *given)

    async def awaited(self, do: Callable[..., Given], *given: object) -> Given:
        """Submit `do` and wait for its result. It runs even if the awaiting task is cancelled."""
        return await self.result_of(self.submit(do, *given))

    @staticmethod
    async def result_of(future: Future[Given]) -> Given:
        """Wait for a submitted call. Cancelling the awaiting task does not cancel the call."""
        return await asyncio.shield(asyncio.wrap_future(future))

    async def forget(self, thread: str) -> None:
        """Remove what is kept of a thread that is gone for good."""
        await self.forget_since(thread, 0.0)

    async def forget_since(self, thread: str, began: float) -> None:
        """Remove the records of commands that began after a time, because their effects were taken back."""
        await self.awaited(self._forget, _name(thread), began)

    async def has_earlier(self, thread: str) -> bool:
        """Return whether another program has run something in a thread."""
        return await self.awaited(self._has_earlier, _name(thread))

    async def of_other_programs(
        self, since: float, workspace: str | None = None
    ) -> list[tuple[str | None, float, float | None]]:
        """Return what other programs ran at a time or later, in a workspace or in any: thread, begin, end.

        The end is None while the command runs. The thread is None if its program was killed during the
        command: then the end is when this was first noticed.
        """
        return await self.awaited(self._of_other_programs, since, workspace)

    def close(self) -> None:
        """Close the file, where it is open. A later call opens it again."""
        if self._file.is_open:
            self.submit(self._file.close).result()

    # -- in the worker thread

    def find(self, entry: Entry) -> str | None:
        """Return the result of a command that has ended. None if the command has never begun.

        Raises:
            CommandInterrupted: the command has begun and has no known end.
            CommandUnderWay: the command is running now.
            KeyReused: the key belongs to another command.
            RecordUnavailable: also if its end could not be recorded, and still cannot.
        """
        with self._file.explained(), _together:
            self._write_late(self._place(entry))
            row = self._file.opened().execute(_FIND, (entry.thread, entry.key)).fetchone()
            if row is None:
                return None
            digest, state, owner, result = row
            mine = owner == self._file.owner
            runs = state == "running" and (self._place(entry) in _under_way if mine else owner_lives(owner))
        if digest != entry.digest:
            raise KeyReused(
                "Nothing was run: this call id was already used by a call with other arguments.",
                hint="Send the call again, with a new id.",
            )
        if state == "ended":
            return str(result)
        if runs:
            raise CommandUnderWay(
                "This call is running now, for another run of the thread. It was not run a second time.",
                hint="Wait, and look at what is there before you repeat anything.",
            )
        if state == "stopped":
            raise CommandStopped(
                "This call was stopped while it ran, including all processes that it started. Its effect is "
                "unknown. It was not run again."
            )
        raise CommandInterrupted

    def begin(self, entry: Entry, workspace: str = "") -> str | None:
        """Record that a command begins. Return None if the caller is to run it, else like `find`.

        Args:
            workspace: names the workspace that the command may change. Empty: any.
        """
        while True:
            with self._file.explained(), _together:
                connection = self._file.opened()
                self._file.prune()
                with contextlib.suppress(sqlite3.Error):
                    for place in [place for place in _unwritten if place[0] == str(self._file.path)]:
                        self._write_late(place)
                row = (entry.thread, entry.key, entry.digest, self._file.owner, time.time(), workspace)
                if connection.execute(_BEGIN, row).rowcount:
                    _under_way.add(self._place(entry))
                    _unwritten.pop(self._place(entry), None)  # the end of a command whose record was removed
                    return None
            found = self.find(entry)
            if found is not None:
                return found
            # Another program has withdrawn the record at this moment: try again.

    def end(self, entry: Entry, result: str) -> None:
        """Record the result. If writing fails, this program tries again later: see `find` and `begin`.

        In other programs, and after the end of this one, the command counts as interrupted.
        """
        self._settle(entry, _SETTLE, "ended", result, len(result), time.time())

    def interrupt(self, entry: Entry) -> None:
        """Record that the effect of the command is unknown."""
        self._settle(entry, _SETTLE, "interrupted", None, 0, time.time())

    def stop(self, entry: Entry) -> None:
        """Record that the command was cancelled: by its caller, or because this process ends."""
        self._settle(entry, _SETTLE, "interrupted" if _ending.is_set() else "stopped", None, 0, time.time())

    def withdraw(self, entry: Entry) -> None:
        """Remove the record of a command that did not begin."""
        self._settle(entry, _WITHDRAW)

    def begun(self, thread: str, keys: Sequence[str]) -> set[str]:
        """Return the keys whose commands have begun, whatever their end."""
        with self._file.explained():
            connection = self._file.opened()
            return {key for key in keys if connection.execute(_FIND, (_name(thread), _name(key))).fetchone()}

    def note(self, thread: str, key: str, text: str) -> None:
        """Keep a text under a key of a thread, unless one is kept: the first stays."""
        self.note_each(thread, {key: text})

    def note_each(self, thread: str, texts: Mapping[str, str]) -> None:
        """As `note`, for several keys, in this order."""
        with self._file.explained():
            connection = self._file.opened()
            self._file.prune()
            for key, text in texts.items():
                entry = Entry.of(thread, key)
                row = (entry.thread, entry.key, entry.digest, self._file.owner, time.time(), len(text), text)
                connection.execute(_NOTE, row)

    def noted(self, thread: str, key: str) -> str | None:
        """Return the text that is kept under a key of a thread."""
        return self.find(Entry.of(thread, key))

    def noted_each(self, thread: str, keys: Sequence[str]) -> list[str | None]:
        """As `noted`, for several keys."""
        return [self.noted(thread, key) for key in keys]

    def noted_with(self, thread: str, suffix: str) -> set[str]:
        """Return the keys with a suffix under which a thread has texts, without the suffix."""
        with self._file.explained():
            rows = self._file.opened().execute(_WITH_SUFFIX, (_name(thread), suffix)).fetchall()
        return {key.removesuffix(suffix) for (key,) in rows}

    def drop(self, thread: str, key: str) -> None:
        """Remove the record of a command whose effect was undone, so that the command can run again."""
        with self._file.explained():
            self._file.opened().execute(_WITHDRAW, (_name(thread), _name(key)))

    def _settle(self, entry: Entry, statement: str, *values: object) -> None:
        with _together:
            place = self._place(entry)
            given = (*values, entry.thread, entry.key)
            try:
                self._file.opened().execute(statement, given)
            except (sqlite3.Error, OSError):
                logger.warning("the record of commands cannot be written: %s", self._file.path, exc_info=True)
                _unwritten[place] = statement, given
            finally:
                _under_way.discard(place)

    def _write_late(self, place: tuple[str, str, str]) -> None:
        """Record the end of a command if that failed before."""
        if late := _unwritten.get(place):
            self._file.opened().execute(*late)
            del _unwritten[place]

    def _of_other_programs(
        self, since: float, workspace: str | None
    ) -> list[tuple[str | None, float, float | None]]:
        with self._file.explained():
            connection = self._file.opened()
            for (owner,) in connection.execute(_RUNNING, (self._file.owner,)).fetchall():
                if not owner_lives(owner):
                    connection.execute(_LOST, (time.time(), owner))
            asked = (self._file.owner, math.inf, since, workspace)
            rows = connection.execute(_OTHERS, asked).fetchall()
        return [(None if state == "lost" else thread, began, ended) for thread, began, ended, state in rows]

    def _has_earlier(self, thread: str) -> bool:
        with self._file.explained():
            found = self._file.opened().execute(_EARLIER, (thread, self._file.owner))
            return found.fetchone() is not None

    def _forget(self, thread: str, began: float) -> None:
        with self._file.explained():
            self._file.opened().execute(_FORGET, (thread, began))

    def _place(self, entry: Entry) -> tuple[str, str, str]:
        return str(self._file.path), entry.thread, entry.key
