"""Run a program in a fresh sandbox and return its result."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from pydantic import ValidationError

from libs.exec_tool import execution_spans as spans
from libs.exec_tool.execute_code_call import Binary, Call, explained
from libs.exec_tool.execution_record import ExecutionRecord, ThreadFiles, written
from libs.exec_tool.outcome import ExecResult
from libs.exec_tool.package_sets import Dependencies
from libs.exec_tool.program_execution import Executor
from libs.redaction import Redact
from libs.sandbox import CommandInterrupted, OnOutput, SandboxDied, SandboxError
from libs.sandbox.host import CommandRecords, Once, blocking
from libs.sandbox.pool import FreshSandboxes

__all__ = ["CodeRunner"]

_AGAIN = "Send the call again, corrected."

WhileRunning = Callable[[str], AbstractAsyncContextManager[set[str] | None]]
"""Gives a set if a program runs without network, before its effect is decided on. The set gets the hosts that
were refused although the gateway allows them."""


_ENDED = (
    "The files of the sandbox are gone. What the program has done elsewhere, if anything, is unknown: look "
    "there before repeating the program."
)
"""The hint after the end of a sandbox while its program ran."""
_STAY = "The thread keeps its files as they were before the program."
"""Follows `_ENDED` if the files of threads are saved."""


class _Startable:
    """Stands in for the sandbox that `Once` would start. The work takes its own sandbox."""

    running = True

    async def astart(self) -> None: ...


class CodeRunner:
    """Runs programs. Thread-safe. Starts nothing before the first call.

    Args:
        sandboxes: the pool of fresh sandboxes.
        seconds: the time limit of an execution until its program ends, including the installation of
            dependencies, reading files, and waiting for a sandbox.
        dependencies: installs packages. None: no packages can be installed.
        files: saves the files of threads. None: every execution begins with an empty folder.
        records: the command log, so that a run repeated after a kill runs no program twice. Without a log,
            keys have no effect.
        redact: removes secrets from results in the log. Results from a sandbox are redacted already.
        read_only: folders of the workspace in which a call cannot place files.
        while_running: thread -> what is held while a program of the thread runs and its files are saved.
        stays: called with a thread and the saved files of a program, when nobody will undo them any more.
            Returns a note for the result, or nothing.
        workspace_of: thread -> the folder on the host that its programs may change, for the log. The default
            is no folder: a sandbox of a program has none.
    """

    def __init__(
        self,
        sandboxes: FreshSandboxes[Any],
        *,
        seconds: float = 30.0,
        dependencies: Dependencies | None = None,
        files: ThreadFiles | None = None,
        records: CommandRecords | None = None,
        redact: Redact | None = None,
        read_only: Collection[str] = (),
        while_running: WhileRunning = lambda _: nullcontext(),
        stays: Callable[[str, Mapping[str, bytes]], Awaitable[str]] | None = None,
        workspace_of: Callable[[str], str] = lambda thread: f"thread {thread}",
    ) -> None:
        self._sandboxes = sandboxes
        self._files = files
        self._records = records
        self._redact = redact
        self._while_running = while_running
        self._stays = stays
        self._executor = Executor(sandboxes, seconds, dependencies, files, frozenset(read_only), stays)
        self._workspace_of = workspace_of
        # A lock disappears with its last user.
        self._turns: WeakValueDictionary[tuple[int, str], asyncio.Lock] = WeakValueDictionary()

    @property
    def keeps_files(self) -> bool:
        """Whether files are saved for the next execution of the thread."""
        return self._files is not None

    def prepare(self) -> None:
        """Start a sandbox for the next program in the background."""
        self._sandboxes.prepare()

    def close(self) -> None:
        """End all sandboxes. A later call starts new ones."""
        self._sandboxes.close()
        if self._records:
            self._records.close()

    async def arun(
        self,
        code: str,
        *,
        thread: str = "",
        key: str | None = None,
        on_output: OnOutput | None = None,
        **given: Any,
    ) -> ExecResult:
        """Run a program to its end. Never raises for an invalid call or a failing program.

        If files are saved, the executions of a thread run one after the other, and so do those without a
        thread, which share their files. Cancelling ends the program.

        Args:
            code: the program.
            thread: the thread whose files and values the program sees.
            key: unique key of the execution in its thread. A key that has ended gives the recorded result.
            on_output: called with each piece of stdout and stderr, in a thread of the sandbox, and with a
                line before an installation.
            given: `dependencies`, `files`, `args`, `language` (see `Call`). Contents of files may be bytes.
        """
        try:
            if isinstance(files := given.get("files"), Mapping):
                given["files"] = {path: _sendable(content) for path, content in files.items()}
            call = Call(code=code, **given)
        except ValidationError as error:
            return ExecResult.failed("input", explained(error), _AGAIN)
        return await self.acall(call, thread=thread, key=key, on_output=on_output)

    run = blocking(arun)

    async def acall(
        self,
        call: Call,
        *,
        thread: str = "",
        key: str | None = None,
        on_output: OnOutput | None = None,
        recorded: bool = False,
    ) -> ExecResult:
        """As `arun`, for a `Call`.

        Args:
            recorded: whether the program has run, and its effect was decided on since: its files stay. Then
                the result is only looked up.
        """
        if closed := next(filter(self._executor.is_read_only, call.files), None):
            why = f"files: {closed} lies in a folder that can only be read: choose another one."
            return ExecResult.failed("input", why, _AGAIN)
        workspace = partial(self._workspace_of, thread)
        once = Once(_Startable(), self._records, lambda: thread, self._redact, workspace=workspace)
        # The files may have 32 MB, so this runs off the event loop.
        asked = [await asyncio.to_thread(lambda: call.text)] if key is not None and self._records else []
        # Files in the thread's store are not saved in the log too.
        record = ExecutionRecord(contents=not self.keeps_files)
        executed = False
        begun = asyncio.Event()

        async def work() -> ExecResult:
            nonlocal executed
            if recorded:
                raise CommandInterrupted
            executed = True
            place = id(asyncio.get_running_loop()), thread
            # Each execution of a thread needs the files of the previous one.
            lock = self._turns.setdefault(place, asyncio.Lock()) if self.keeps_files else asyncio.Lock()
            async with lock, self._while_running(thread) as unreached:
                return await self._executor.run(call, thread, on_output, unreached, begun)

        with nullcontext() if recorded else spans.part("execute_code") as span:
            try:
                # A call that is cancelled before its program starts has no effect: it may run again.
                result = await once.do(key, asked, record.form, work, begun.is_set)
                if not executed and self._files and result.files:
                    result = record.with_files(result, await self._files.files(thread))
                if recorded and self._stays:
                    result = result.noted(await self._stays(thread, written(call, result)))
            except CommandInterrupted as error:
                result = ExecResult.failed("interrupted", str(error), error.hint)
            except SandboxDied as error:
                hint = error.hint
                if begun.is_set():
                    hint = f"{_ENDED} {_STAY}" if self.keeps_files and thread else _ENDED
                failed = ExecResult.failed("sandbox", str(error), hint)
                result = replace(failed, stdout=error.output, sandbox_died=True)
            except SandboxError as error:
                result = ExecResult.failed("sandbox", str(error), error.hint)
            if not recorded:
                spans.record(span, call, thread, result)
        return result


def _sendable(content: Any) -> Any:
    return Binary(base64=base64.b64encode(content).decode()) if isinstance(content, bytes) else content
