"""Do what has a key once: written down before it begins and when it has ended, and not done again (S16)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from typing import Any, Generic, Protocol, TypeVar

from libs.sandbox.errors import SandboxDied, SandboxError
from libs.sandbox.protocol import FileFailed, RunResult
from libs.sandbox.records import CommandRecords, Entry
from libs.sandbox.redact import Redact, redacted_values

__all__ = ["FILE", "RUN", "Form", "Once"]

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Form(Generic[Result]):
    """A kind of result, and what it is as JSON."""

    encode: Callable[[Result], Any]
    decode: Callable[[Any], Result]


RUN: Form[RunResult] = Form(asdict, lambda kept: RunResult(**kept))
FILE: Form[tuple[dict[str, Any], bytes]] = Form(lambda done: done[0], lambda kept: (kept, b""))
"""An operation that changes something: it answers, and returns no content."""


class _Startable(Protocol):
    """The sandbox: nothing is started for what need not be done."""

    @property
    def running(self) -> bool: ...
    def start(self) -> None: ...


class Once:
    """Does what is asked of a sandbox, that with a key once.

    Args:
        sandbox: what is started before the first thing that is really done.
        records: where it is written down; without one a key means nothing.
        thread: gives the thread that a key belongs to, asked in the caller's context.
        redact: goes over what comes back from the record: a secret may have become known since.
    """

    def __init__(
        self,
        sandbox: _Startable,
        records: CommandRecords | None,
        thread: Callable[[], str],
        redact: Redact | None,
    ) -> None:
        self._sandbox = sandbox
        self._records = records
        self._thread = thread
        self._redact = redact

    def do(
        self, key: str | None, asked: Sequence[str | bytes], form: Form[Result], work: Callable[[], Result]
    ) -> Result:
        """What `work` gives, or gave when this was asked for before.

        Args:
            key: tells it from everything else in its thread; None: it is simply done.
            asked: all that makes it the same thing.
            form: how its result is kept.

        Raises:
            CommandInterrupted: it was begun before, and never ended.
            CommandUnderWay: it is being done at this moment.
            KeyReused: something else had this key.
            RecordUnavailable: it could not be written down, so it was not begun.
        """
        records = self._records
        if key is None or records is None:
            return work()
        entry = self._entry(key, asked)
        if not self._sandbox.running:
            kept = records.wait(records.find, entry)
            if kept is not None:
                return self._again(kept, form)
            self._sandbox.start()
        begin = records.submit(records.begin, entry)
        try:
            kept = begin.result()
        except KeyboardInterrupt:
            records.submit(_let_go, records, entry, begin)
            raise
        if kept is not None:
            return self._again(kept, form)
        try:
            result = work()
        except BaseException as error:
            records.wait(*_after(records, entry, error))
            raise
        records.wait(records.end, entry, _ended(form.encode(result)))
        return result

    async def ado(
        self,
        key: str | None,
        asked: Sequence[str | bytes],
        form: Form[Result],
        work: Callable[[], Awaitable[Result]],
        start: Callable[[], Awaitable[object]],
    ) -> Result:
        """As `do`, without blocking the event loop; `start` starts the sandbox."""
        records = self._records
        if key is None or records is None:
            return await work()
        entry = self._entry(key, asked)
        if not self._sandbox.running:
            kept = await records.awaited(records.find, entry)
            if kept is not None:
                return self._again(kept, form)
            await start()
        begin = records.submit(records.begin, entry)
        try:
            kept = await records.result_of(begin)
        except asyncio.CancelledError:
            records.submit(_let_go, records, entry, begin)
            raise
        if kept is not None:
            return self._again(kept, form)
        try:
            result = await work()
        except Exception as error:
            await records.awaited(*_after(records, entry, error))
            raise
        except BaseException as error:
            # Cancelled: nobody waits any longer. Until that is written, it counts as under way.
            records.submit(*_after(records, entry, error))
            raise
        await records.awaited(records.end, entry, _ended(form.encode(result)))
        return result

    def begun(self, keys: Sequence[str]) -> set[str]:
        """Which of these keys were begun before, however that ended."""
        records = self._records
        return records.wait(records.begun, self._thread(), keys) if records else set()

    async def abegun(self, keys: Sequence[str]) -> set[str]:
        """`begun`, without blocking the event loop."""
        records = self._records
        return await records.awaited(records.begun, self._thread(), keys) if records else set()

    def _entry(self, key: str, asked: Sequence[str | bytes]) -> Entry:
        parts = (part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass") for part in asked)
        return Entry.of(self._thread(), key, *parts)

    def _again(self, kept: str, form: Form[Result]) -> Result:
        value = json.loads(kept)
        if self._redact:
            value = redacted_values(self._redact, value)
        if failed := value.get("failed"):
            raise FileFailed(*failed)
        return form.decode(value["result"])


def _ended(result: Any) -> str:
    return json.dumps({"result": result})


def _after(records: CommandRecords, entry: Entry, error: BaseException) -> tuple[Any, ...]:
    """What is to be written down where no result came: the call of the record, and what it is given."""
    if isinstance(error, FileFailed):
        return records.end, entry, json.dumps({"failed": [error.code, str(error)]})
    if isinstance(error, SandboxError) and not isinstance(error, SandboxDied):
        return records.withdraw, entry  # it could not be begun
    if isinstance(error, asyncio.CancelledError | KeyboardInterrupt):
        return records.stop, entry  # the sandbox has been told to end it
    return records.interrupt, entry


def _let_go(records: CommandRecords, entry: Entry, begun: Future[str | None]) -> None:
    """Forget what was written down for a caller that has gone: in the record's thread, right behind it."""
    if begun.exception() is None and begun.result() is None:
        records.withdraw(entry)
