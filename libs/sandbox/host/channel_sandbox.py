"""Implements the Sandbox protocol over a channel: commands, code blocks and file operations."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from libs.redaction import Redact
from libs.sandbox.errors import SandboxDied, SandboxError
from libs.sandbox.host.awaited_answers import Feed
from libs.sandbox.host.channel import Channel
from libs.sandbox.host.loop_thread import core, on_core, synchronous
from libs.sandbox.host.records import FILE, RUN, CommandRecords, Once
from libs.sandbox.host.requests import (
    CHANGES,
    Answer,
    Call,
    as_builtin,
    block_request,
    block_result,
    decoded,
    file_asked,
    file_request,
    file_result,
    received,
    run_asked,
    run_request,
    run_result,
    tree_request,
)
from libs.sandbox.host.sandbox_requests import SandboxRequests
from libs.sandbox.host.thread_work import OUTSIDE, ThreadPrograms, Turns
from libs.sandbox.limits import SandboxLimits
from libs.sandbox.protocol import FileFailed, OnOutput, RunResult
from libs.sandbox.wire.frames import Fd
from libs.sandbox.workspace import FOLDERS

__all__ = ["ChannelSandbox"]

logger = logging.getLogger(__name__)

_CAPTURE_SECONDS = 10.0
"""Longest wait for captures when the sandbox is closed."""
_END_SECONDS = 5.0
"""Seconds until an interpreter that does not end is killed."""


class ChannelSandbox(SandboxRequests):
    """A sandbox behind a channel. Implements `libs.sandbox.protocol.Sandbox`; see there for every method."""

    root: Path
    """The folder of the workspace, on the machine that has it."""
    isolated: bool
    """Whether commands are isolated from this machine. A model may only use an isolated sandbox."""
    spills = True
    """Whether a file in the sandbox keeps the whole of a command's long output."""

    def __init__(
        self,
        name: str,
        limits: SandboxLimits,
        *,
        idle_seconds: float = 0,
        redact: Redact | None = None,
        records: CommandRecords | None = None,
        thread: Callable[[], str] = str,
    ) -> None:
        """Create the object. The sandbox starts with the first call.

        Args:
            idle_seconds: seconds without a request after which the sandbox is stopped; 0: never.
            redact: removes secrets from everything that leaves the sandbox: output, live output, names and
                contents of files, errors. Input and the workspace are not changed.
            records: the command log. Without it, a key has no effect.
            thread: returns the thread that a key belongs to. Called in the context of the call.
        """
        super().__init__(idle_seconds, redact)
        self.name = name
        self.limits = limits
        self.records = records
        self._thread = thread
        self.turns = Turns()
        """Keeps commands and captures of the workspace apart."""
        self._once = Once(
            self, records, thread, redact, workspace=lambda: str(self.root), alone=self.turns.lock
        )
        self._programs = ThreadPrograms()
        self.protected = ["/workspace", "/skills", "/tmp/home", *(f"/{folder}" for folder in FOLDERS)]  # noqa: S108
        """Paths inside that are never deleted, nor their parent folders."""

    # -- commands

    @on_core
    async def arun(
        self,
        command: str,
        *,
        timeout: float | None = None,
        on_output: OnOutput | None = None,
        merge_stderr: bool = True,
        env: Mapping[str, str] = {},
        key: str | None = None,
        note_new: bool = False,
        alone: bool = False,
        uses: Collection[str] = (),
    ) -> RunResult:
        seconds, payload = run_request(
            self.limits,
            command,
            timeout,
            merge_stderr=merge_stderr,
            env=env,
            live=on_output is not None,
            spills=self.spills,
        )
        calls: list[Call] = []

        def result(call: Call, answer: Answer) -> RunResult:
            return run_result(self.limits, call, answer, seconds, self.spills)

        async def work() -> RunResult:
            return await self._run(
                partial(self._ask, payload, seconds, on_output=on_output, uses=uses, sent=calls.append),
                result,
                calls,
                live=on_output,
                note_new=note_new,
                alone=alone,
            )

        asked = run_asked(command, env, merge_stderr=merge_stderr)
        done = await self._once.do(key, asked, RUN, work, partial(_begun, calls))
        self._told(calls, note_new)
        return done

    @on_core
    async def arun_python(
        self,
        code: str,
        *,
        session: str,
        timeout: float | None = None,
        on_output: OnOutput | None = None,
        key: str | None = None,
        continues: bool = False,
        note_new: bool = False,
        alone: bool = False,
        uses: Collection[str] = (),
    ) -> RunResult:
        seconds, request = block_request(self.limits, code, session, timeout)
        block = self.notes.sessions.block(session, self._thread())

        def payload() -> bytes:
            return request(continues=continues or block.continues)

        def result(call: Call, answer: Answer) -> RunResult:
            return block.with_note(call, block_result(self.limits, call, answer, seconds))

        async def work() -> RunResult:
            return await self._run(
                partial(self._ask, payload, seconds, on_output=on_output, uses=uses, sent=block.sent),
                result,
                block.calls,
                live=on_output,
                note_new=note_new,
                alone=alone,
            )

        with block:
            done = await self._once.do(key, ("python", code, session), RUN, work, block.begun)
        self._told(block.calls, note_new)
        return done

    async def _run(
        self,
        ask: Callable[[], Awaitable[tuple[Call, Answer]]],
        result: Callable[[Call, Answer], RunResult],
        calls: Sequence[Call],
        *,
        live: OnOutput | None,
        note_new: bool,
        alone: bool,
    ) -> RunResult:
        """Run a command or a block. See `Sandbox.run` for `note_new` and `alone`.

        `calls`: the requests that `ask` has sent.
        """
        thread = self._thread()
        earlier = note_new and await self._begins()
        async with self.turns.command(thread):
            if note_new and live and (note := self._note((await self._current_channel()).number, earlier)):
                live(note.encode())
            try:
                call, answer = await ask()
                if alone and answer.left_running:
                    self._programs.end_left(thread, call.stream, call.sandbox)
            except SandboxDied as error:
                error.output = received(self.limits, calls[-1], self.spills) if calls else ""
                raise
            finally:
                # The supervisor renews the workers before it begins another request.
                if alone and (channel := self._live()):
                    channel.renew()
        done = await decoded(call, answer, lambda: result(call, answer))
        if not note_new:
            return done
        return replace(done, output=self._note(call.sandbox, earlier) + done.output)

    def _told(self, calls: Sequence[Call], note_new: bool) -> None:
        """Remember the sandbox of a call with a result. A call that is cancelled before has told nobody."""
        if note_new and calls:
            self.notes.sandboxes.called(self._thread(), calls[-1].sandbox, self)

    async def _begins(self) -> bool:
        """Note the sandbox of the thread's first call.

        Return whether it is not the first, because an earlier program has run something in the thread.
        """
        thread = self._thread()
        if self.notes.sandboxes.knows(thread, self):
            return False
        if thread != OUTSIDE and self.records and await self.records.has_earlier(thread):
            return True
        self.notes.sandboxes.called(thread, (await self._current_channel()).number, self)
        return False

    def _note(self, sandbox: int, earlier: bool) -> str:
        filled = self.fill is not None
        note = self.notes.sandboxes.note(self._thread(), sandbox, self, filled=filled, earlier=earlier)
        if gone := self.missing_folders:
            note += (
                f"[{' and '.join(gone)}: moved or removed on the host; perhaps empty here, until it is put "
                "back there]\n"
            )
        return note

    @on_core
    async def aend_programs(self, thread: str) -> None:
        """End background programs and live interpreters of a thread. The next block prints a note."""
        self._programs.end_background(thread)
        for session in self.notes.sessions.of_thread(thread) if self.running else ():
            with suppress(SandboxError):
                await self._ask(*_ending(self.limits, session))

    def has_background(self, thread: str) -> bool:
        """Return whether commands of a thread may have left something running. Call this on the core."""
        return self._programs.has_background(thread)

    def _left_running(self, channel: Channel, stream: int) -> None:
        self._programs.left_running(self._thread(), channel, stream)

    @on_core
    async def abegun(self, keys: Sequence[str]) -> set[str]:
        return await self._once.begun(keys)

    run = synchronous(arun)
    run_python = synchronous(arun_python)
    begun = synchronous(abegun)

    # -- files

    @on_core
    async def afile(
        self,
        do: str,
        *,
        content: bytes | None = None,
        key: str | None = None,
        **arguments: Any,
    ) -> tuple[dict[str, Any], bytes]:
        seconds, payload = file_request(do, content, arguments, protected=self.protected)
        asked = file_asked(do, content, arguments) if key is not None else ()
        calls: list[Call] = []

        async def work() -> tuple[dict[str, Any], bytes]:
            if key is not None:
                await self._begins()
            if self.check and do not in CHANGES:
                await self.check()
            async with self.turns.command(self._thread()) if do in CHANGES else nullcontext():
                call, answer = await self._ask(payload, seconds, content=content or b"", sent=calls.append)
            try:
                return await decoded(call, answer, lambda: file_result(call, answer, seconds))
            except FileFailed as error:
                if error.code == "folder_removed":
                    self._watch.look_soon()
                raise

        return await self._once.do(key, asked, FILE, work, partial(_begun, calls))

    async def aread_file(self, path: str) -> bytes:
        try:
            return (await self.afile("read", path=path))[1]
        except FileFailed as error:
            raise as_builtin(error, path) from error

    async def awrite_file(self, path: str, content: bytes) -> None:
        try:
            await self.afile("write", path=path, replace=True, content=content)
        except FileFailed as error:
            raise as_builtin(error, path) from error

    @on_core
    async def atree(
        self, do: str, *, content: bytes = b"", feed: Feed | None = None, size: int = 0, **arguments: Any
    ) -> tuple[dict[str, Any], bytes, bytes]:
        seconds, payload = tree_request(do, len(content) + size, arguments, self._mounted_at())
        call, answer = await self._ask(payload, seconds, content=content, feed=feed, redacted=False)
        message, data = await decoded(call, answer, lambda: file_result(call, answer, seconds))
        return message, data, bytes(call.data[Fd.ERR])

    def close(self) -> None:
        """Stop the sandbox, after captures that have begun (see `Turns`) and after `keep`."""
        if self.turns.watched or self.keep:
            core().wait(self._captures_end())
        super().close()

    async def _captures_end(self) -> None:
        try:
            async with asyncio.timeout(_CAPTURE_SECONDS):
                await self.turns.all_settled()
                if self.keep and self.running:
                    await self.keep()
        except (TimeoutError, SandboxError) as error:
            logger.warning("A sandbox is closed, and its latest files may not be kept: %s", error)

    file = synchronous(afile)
    read_file = synchronous(aread_file)
    write_file = synchronous(awrite_file)


def _begun(calls: Sequence[Call]) -> bool:
    """Return whether one of the requests that were sent may have begun."""
    return any(call.begun for call in calls)


def _ending(limits: SandboxLimits, session: str) -> tuple[bytes, float]:
    """Return the request that ends the interpreter of a session."""
    seconds, request = block_request(limits, "", session, _END_SECONDS)
    return request(continues=True, ends=True), seconds
