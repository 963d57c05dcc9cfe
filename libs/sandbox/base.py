"""What every sandbox does with its channel: run commands and blocks, handle files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from libs.sandbox.life import SandboxLife
from libs.sandbox.limits import SandboxLimits
from libs.sandbox.once import FILE, RUN, Once
from libs.sandbox.payloads import block_request, file_asked, file_request, run_request
from libs.sandbox.protocol import FileFailed, OnOutput, RunResult
from libs.sandbox.records import CommandRecords
from libs.sandbox.redact import Redact
from libs.sandbox.results import as_builtin, block_result, file_result, run_result
from libs.sandbox.sessions import Sessions
from libs.sandbox.workspace import FOLDERS

__all__ = ["ChannelSandbox"]

_AT_ONCE = 1_000_000
"""Bytes of a file that are looked through for secrets on an event loop: some milliseconds."""


class ChannelSandbox(SandboxLife):
    """A sandbox behind a channel. Implements `libs.sandbox.protocol.Sandbox`; see there for every method."""

    isolated: bool
    """Whether commands are kept apart from this machine: only then may they be a model's."""

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
        """Describe it.

        Args:
            idle_seconds: how long it may rest until it is ended; 0 for ever.
            redact: see `Redact`.
            records: where it is written down what has begun and how it ended; without, a key has no effect.
            thread: gives the thread that a key belongs to, asked in the context of the call.
        """
        super().__init__(idle_seconds, redact)
        self.name = name
        self.limits = limits
        self._once = Once(self, records, thread, redact)
        self._sessions = Sessions()
        self.protected = ["/workspace", "/skills", "/tmp/home", *(f"/{folder}" for folder in FOLDERS)]  # noqa: S108
        """Paths inside that are never deleted, nor what holds them."""

    # -- commands

    def run(
        self,
        command: str,
        *,
        timeout: float | None = None,
        on_output: OnOutput | None = None,
        merge_stderr: bool = True,
        env: Mapping[str, str] = {},
        key: str | None = None,
    ) -> RunResult:
        seconds, payload = run_request(
            self.limits, command, timeout, merge_stderr=merge_stderr, env=env, live=on_output is not None
        )

        def work() -> RunResult:
            channel, call = self._request(payload, key, on_output=on_output)
            return run_result(self.limits, call, self._wait(channel, call, seconds), seconds)

        return self._once.do(key, ("run", command), RUN, work)

    async def arun(
        self,
        command: str,
        *,
        timeout: float | None = None,
        on_output: OnOutput | None = None,
        merge_stderr: bool = True,
        env: Mapping[str, str] = {},
        key: str | None = None,
    ) -> RunResult:
        seconds, payload = run_request(
            self.limits, command, timeout, merge_stderr=merge_stderr, env=env, live=on_output is not None
        )

        async def work() -> RunResult:
            channel, call = await self._arequest(payload, key, on_output=on_output)
            return run_result(self.limits, call, await self._await(channel, call, seconds), seconds)

        return await self._once.ado(key, ("run", command), RUN, work, self._astart)

    def run_python(
        self,
        code: str,
        *,
        session: str,
        timeout: float | None = None,
        on_output: OnOutput | None = None,
        key: str | None = None,
    ) -> RunResult:
        seconds, payload = block_request(self.limits, code, session, timeout)

        def work() -> RunResult:
            channel, call = self._request(payload, key, on_output=on_output)
            note = self._sessions.note(session, channel)
            return block_result(self.limits, call, self._wait(channel, call, seconds), seconds, note)

        with self._sessions.going_on(session):
            return self._once.do(key, ("python", code), RUN, work)

    async def arun_python(
        self,
        code: str,
        *,
        session: str,
        timeout: float | None = None,
        on_output: OnOutput | None = None,
        key: str | None = None,
    ) -> RunResult:
        seconds, payload = block_request(self.limits, code, session, timeout)

        async def work() -> RunResult:
            channel, call = await self._arequest(payload, key, on_output=on_output)
            note = self._sessions.note(session, channel)
            return block_result(self.limits, call, await self._await(channel, call, seconds), seconds, note)

        with self._sessions.going_on(session):
            return await self._once.ado(key, ("python", code), RUN, work, self._astart)

    def begun(self, keys: Sequence[str]) -> set[str]:
        return self._once.begun(keys)

    async def abegun(self, keys: Sequence[str]) -> set[str]:
        return await self._once.abegun(keys)

    # -- files

    def file(
        self, do: str, *, content: bytes | None = None, key: str | None = None, **arguments: Any
    ) -> tuple[dict[str, Any], bytes]:
        asked = file_asked(do, content, arguments) if key is not None else ()
        seconds, payload = file_request(do, content, arguments, protected=self.protected)

        def work() -> tuple[dict[str, Any], bytes]:
            channel, call = self._request(payload, key, content=content or b"")
            return file_result(call, self._wait(channel, call, seconds), seconds)

        return self._once.do(key, asked, FILE, work)

    async def afile(
        self,
        do: str,
        *,
        content: bytes | None = None,
        key: str | None = None,
        redacted: bool = True,
        **arguments: Any,
    ) -> tuple[dict[str, Any], bytes]:
        asked = file_asked(do, content, arguments) if key is not None else ()
        seconds, payload = file_request(do, content, arguments, protected=self.protected)

        async def work() -> tuple[dict[str, Any], bytes]:
            channel, call = await self._arequest(payload, key, content=content or b"")
            if not redacted:
                call.redact = None
            answer = await self._await(channel, call, seconds)
            if call.redact and call.received(answer) > _AT_ONCE:
                return await asyncio.to_thread(file_result, call, answer, seconds)
            return file_result(call, answer, seconds)

        return await self._once.ado(key, asked, FILE, work, self._astart)

    def read_file(self, path: str) -> bytes:
        try:
            return self.file("read", path=path)[1]
        except FileFailed as error:
            raise as_builtin(error, path) from error

    async def aread_file(self, path: str, *, redacted: bool = True) -> bytes:
        """See `Sandbox`. Without redaction for an archive, which it would break: its reader redacts."""
        try:
            return (await self.afile("read", path=path, redacted=redacted))[1]
        except FileFailed as error:
            raise as_builtin(error, path) from error

    def write_file(self, path: str, content: bytes) -> None:
        try:
            self.file("write", path=path, replace=True, content=content)
        except FileFailed as error:
            raise as_builtin(error, path) from error

    async def awrite_file(self, path: str, content: bytes) -> None:
        try:
            await self.afile("write", path=path, replace=True, content=content)
        except FileFailed as error:
            raise as_builtin(error, path) from error
