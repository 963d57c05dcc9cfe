"""Runs an operation with a key once: it is recorded before it begins and when it ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any, Generic, Protocol, TypeVar

from libs.redaction import Redact
from libs.sandbox.errors import SandboxDied, SandboxError
from libs.sandbox.host.records.command_log import CommandRecords, Entry
from libs.sandbox.host.requests import redacted_values
from libs.sandbox.protocol import FileFailed, RunResult

__all__ = ["FILE", "RUN", "Form", "Once"]

Result = TypeVar("Result")

_AT_ONCE = 1_000_000
"""Bytes that are hashed on the event loop. Larger content is hashed in a thread."""


@dataclass(frozen=True, slots=True)
class Form(Generic[Result]):
    """Converts one kind of result to JSON and back."""

    encode: Callable[[Result], Any]
    decode: Callable[[Any], Result]


RUN: Form[RunResult] = Form(asdict, lambda kept: RunResult(**kept))
FILE: Form[tuple[dict[str, Any], bytes]] = Form(lambda done: done[0], lambda kept: (kept, b""))
"""A file change: it has an answer and no content."""


class _Startable(Protocol):
    """The sandbox. It is not started for an operation that already has a result."""

    @property
    def running(self) -> bool: ...
    async def astart(self) -> None: ...


class Once:
    """Runs the operations of a sandbox, each key once.

    Args:
        sandbox: started before an operation runs.
        records: the command log. Without it, a key has no effect.
        thread: returns the thread that a key belongs to. Called in the caller's context.
        redact: removes secrets from recorded results, as a secret may have become known later.
        workspace: names the workspace that the operations change. Called in the caller's context.
        alone: makes the lock that an operation holds from the time that is recorded as its begin.
    """

    def __init__(
        self,
        sandbox: _Startable,
        records: CommandRecords | None,
        thread: Callable[[], str],
        redact: Redact | None,
        *,
        workspace: Callable[[], str] = str,
        alone: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
    ) -> None:
        self._sandbox = sandbox
        self._records = records
        self._thread = thread
        self._redact = redact
        self._workspace = workspace
        self._alone = alone

    async def do(
        self,
        key: str | None,
        asked: Sequence[str | bytes],
        form: Form[Result],
        work: Callable[[], Awaitable[Result]],
        begun: Callable[[], bool] = lambda: True,
    ) -> Result:
        """Run `work` and return its result, or return the recorded result of an earlier run.

        Args:
            key: identifies the operation in its thread. None runs it without a record.
            asked: the parts that identify the operation's content.
            form: how the result is recorded.
            begun: returns whether the operation may have begun. Called when `work` is cancelled.

        Raises:
            CommandInterrupted: the operation has begun before and has no known end.
            CommandUnderWay: the operation is running now.
            KeyReused: the key belongs to another operation.
            RecordUnavailable: the log cannot be written, so the operation did not begin.
        """
        records = self._records
        if key is None or records is None:
            return await work()
        entry = await self._entry(key, asked)
        if not self._sandbox.running:
            kept = await records.awaited(records.find, entry)
            if kept is not None:
                return self._again(kept, form)
            await self._sandbox.astart()
        async with self._alone():
            return await self._run(records, entry, form, work, begun)

    async def _run(
        self,
        records: CommandRecords,
        entry: Entry,
        form: Form[Result],
        work: Callable[[], Awaitable[Result]],
        begun: Callable[[], bool],
    ) -> Result:
        begin = records.submit(records.begin, entry, self._workspace())
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
            # Cancelled: do not wait. Until the record is written, the operation counts as running.
            records.submit(*(_after(records, entry, error) if begun() else (records.withdraw, entry)))
            raise
        await records.awaited(records.end, entry, _ended(form.encode(result)))
        return result

    async def begun(self, keys: Sequence[str]) -> set[str]:
        """Return the keys whose operations have begun, whatever their end."""
        records = self._records
        return await records.awaited(records.begun, self._thread(), keys) if records else set()

    async def _entry(self, key: str, asked: Sequence[str | bytes]) -> Entry:
        parts = [part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass") for part in asked]
        if sum(map(len, parts)) > _AT_ONCE:
            return await asyncio.to_thread(Entry.of, self._thread(), key, *parts)
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
    """Return the call of the log that records an operation without a result."""
    if isinstance(error, FileFailed):
        return records.end, entry, json.dumps({"failed": [error.code, str(error)]})
    if isinstance(error, SandboxError) and not isinstance(error, SandboxDied):
        return records.withdraw, entry  # the operation did not begin
    if isinstance(error, asyncio.CancelledError):
        return records.stop, entry  # the sandbox ends the operation
    return records.interrupt, entry


def _let_go(records: CommandRecords, entry: Entry, begun: Future[str | None]) -> None:
    """Withdraw the record of a cancelled caller. Runs in the log's worker thread, right after `begin`."""
    if begun.exception() is None and begun.result() is None:
        records.withdraw(entry)
