"""What every sandbox does with its channel: start on first use, run, handle files, replace what has died."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

from libs.sandbox.channel import Call, Channel
from libs.sandbox.errors import SandboxBusy, SandboxDied, SandboxError
from libs.sandbox.frames import Fd
from libs.sandbox.limits import MAX_TIMEOUT, SandboxLimits
from libs.sandbox.output import SPILL_LIMIT
from libs.sandbox.protocol import FileFailed, OnOutput, RunResult

__all__ = ["ChannelSandbox"]

_FILE_SECONDS = 30.0
"""Seconds a file operation may take; content adds a second for each 10 MB."""
_PATIENCE = 10.0
"""Seconds over a request's own time-out after which a sandbox that does not answer is given up."""


class ChannelSandbox(ABC):
    """A sandbox behind a channel. Implements `libs.sandbox.protocol.Sandbox`; see there for every method."""

    def __init__(self, name: str, limits: SandboxLimits) -> None:
        self.name = name
        self.limits = limits
        self._channel: Channel | None = None
        self._starting = threading.Lock()

    @abstractmethod
    def _connect(self) -> Channel:
        """Start a fresh sandbox and do the hand-shake. Called by one thread at a time.

        Raises:
            SandboxError: it cannot be started.
        """

    # -- commands

    def run(
        self,
        command: str,
        *,
        timeout: float | None = None,
        on_output: OnOutput | None = None,
        merge_stderr: bool = True,
        env: Mapping[str, str] = {},
    ) -> RunResult:
        request = self._run_request(command, timeout, merge_stderr, env)
        channel = self._live() or self._start()
        call = channel.request(request, on_output=on_output)
        return self._run_result(call, self._wait(channel, call, request), request)

    async def arun(
        self,
        command: str,
        *,
        timeout: float | None = None,
        on_output: OnOutput | None = None,
        merge_stderr: bool = True,
        env: Mapping[str, str] = {},
    ) -> RunResult:
        request = self._run_request(command, timeout, merge_stderr, env)
        channel = await self._astart()
        call = channel.request(request, on_output=on_output)
        return self._run_result(call, await self._await(channel, call, request), request)

    def _run_request(
        self, command: str, timeout: float | None, merge_stderr: bool, env: Mapping[str, str]
    ) -> dict[str, Any]:
        seconds = self.limits.timeout if timeout is None else timeout
        if not 0 < seconds <= MAX_TIMEOUT:
            raise ValueError(f"timeout is {seconds}: it must be over 0 and at most {MAX_TIMEOUT:g} seconds")
        if "\0" in command:
            raise ValueError("a command cannot hold a NUL character")
        return {
            "op": "run",
            "command": command,
            "timeout": seconds,
            "limit": self.limits.output_chars,
            "merge": merge_stderr,
            "live": True,
            "env": dict(env),
        }

    def _run_result(self, call: Call, message: dict[str, Any], request: dict[str, Any]) -> RunResult:
        error, ended_by = message.get("error"), message.get("ended_by")
        if error == "busy":
            raise SandboxBusy(
                f"The sandbox cannot start the command: its {self.limits.pids} processes are used up.",
                hint="End what runs in the background (`pkill`, `kill`), wait for other commands, "
                "or raise SANDBOX_PIDS.",
            )
        if error not in (None, "lost"):
            raise SandboxDied(f"The sandbox could not run the command: {error}.", hint="Try again.")
        output = self._text(call, Fd.OUT, message.get("out"))
        if ended_by == "timeout":
            note = f"[timed out after {request['timeout']:g} s: everything the command started was ended]"
        elif error == "lost":
            note = "[the command ended the process that ran it: everything it started was ended]"
        else:
            note = ""
        if note:
            output += "\n" * bool(output and not output.endswith("\n")) + note
        details = [message[name] for name in ("out", "err") if name in message]
        return RunResult(
            output=output,
            stderr=self._text(call, Fd.ERR, message.get("err")),
            exit_code=124 if ended_by == "timeout" else message["exit_code"],
            truncated=any(detail["chars"] > self.limits.output_chars for detail in details),
            timed_out=ended_by == "timeout",
            spill_path=next((detail["spill"] for detail in details if detail["spill"]), None),
            seconds=message.get("seconds", request["timeout"]),
        )

    def _text(self, call: Call, fd: Fd, detail: dict[str, Any] | None) -> str:
        """An output as text, its middle cut out where it is over the limit."""
        head, tail = b"".join(call.data[fd]), b"".join(call.tail[fd])
        limit = self.limits.output_chars
        if detail is None or detail["chars"] <= limit:
            return (head + tail).decode("utf-8", "replace")
        half = limit // 2
        # Where more was left out inside, the tail begins anywhere, perhaps within a character.
        first = head.decode("utf-8", "replace")
        last = tail.decode("utf-8", "replace")
        if len(head) + len(tail) <= 4 * limit:
            first = last = (head + tail).decode("utf-8", "replace")
        where = "it could not be kept: no space in the workspace"
        if detail["spill"]:
            where = f"the whole output is in {detail['spill']}"
            if detail["spilled"] >= SPILL_LIMIT:
                where = f"its first {SPILL_LIMIT // 2**20} MB are in {detail['spill']}"
        left_out = detail["chars"] - 2 * half
        return f"{first[:half]}\n[… {left_out:,} characters left out; {where} …]\n{last[-half:]}"

    # -- files

    def file(
        self, do: str, *, content: bytes | None = None, **arguments: Any
    ) -> tuple[dict[str, Any], bytes]:
        request = self._file_request(do, content, arguments)
        channel = self._live() or self._start()
        call = channel.request(request, content=content or b"")
        return self._file_result(call, self._wait(channel, call, request), request)

    async def afile(
        self, do: str, *, content: bytes | None = None, **arguments: Any
    ) -> tuple[dict[str, Any], bytes]:
        request = self._file_request(do, content, arguments)
        channel = await self._astart()
        call = channel.request(request, content=content or b"")
        return self._file_result(call, await self._await(channel, call, request), request)

    def _file_request(self, do: str, content: bytes | None, arguments: dict[str, Any]) -> dict[str, Any]:
        if any("\0" in value for value in arguments.values() if isinstance(value, str)):
            raise FileFailed("invalid_path", "a path cannot hold a NUL character")
        if content is not None:
            arguments["size"] = len(content)
        seconds = _FILE_SECONDS + len(content or b"") / 10e6
        return {"op": "file", "do": do, "arguments": arguments, "timeout": seconds}

    def _file_result(
        self, call: Call, message: dict[str, Any], request: dict[str, Any]
    ) -> tuple[dict[str, Any], bytes]:
        if message.get("ended_by"):
            raise FileFailed("timeout", f"it took over {request['timeout']:g} s")
        error = message.get("error")
        if error == "busy":
            raise SandboxBusy(
                "The sandbox cannot handle files now: its process limit is used up.",
                hint="End what runs in the background, or raise SANDBOX_PIDS.",
            )
        if error:
            raise FileFailed("failed" if error == "lost" else error, message.get("detail", error))
        return message, b"".join(call.data[Fd.OUT])

    def read_file(self, path: str) -> bytes:
        try:
            return self.file("read", path=path)[1]
        except FileFailed as error:
            raise _as_builtin(error, path) from error

    async def aread_file(self, path: str) -> bytes:
        try:
            return (await self.afile("read", path=path))[1]
        except FileFailed as error:
            raise _as_builtin(error, path) from error

    def write_file(self, path: str, content: bytes) -> None:
        try:
            self.file("write", path=path, replace=True, content=content)
        except FileFailed as error:
            raise _as_builtin(error, path) from error

    async def awrite_file(self, path: str, content: bytes) -> None:
        try:
            await self.afile("write", path=path, replace=True, content=content)
        except FileFailed as error:
            raise _as_builtin(error, path) from error

    # -- life

    def reset(self) -> None:
        self.close()

    def close(self) -> None:
        with self._starting:
            channel, self._channel = self._channel, None
            if channel:
                channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _live(self) -> Channel | None:
        channel = self._channel
        return channel if channel and not channel.closed else None

    def _start(self) -> Channel:
        with self._starting:
            channel = self._live()
            if channel is None:
                channel = self._channel = self._connect()
            return channel

    async def _astart(self) -> Channel:
        channel = self._live()
        return channel if channel else await asyncio.to_thread(self._start)

    # -- waiting

    def _wait(self, channel: Channel, call: Call, request: dict[str, Any]) -> dict[str, Any]:
        try:
            return call.future.result(request["timeout"] + _PATIENCE)
        except TimeoutError:
            raise self._give_up(channel) from None
        except SandboxError:
            raise
        except BaseException:
            channel.cancel(call)
            raise

    async def _await(self, channel: Channel, call: Call, request: dict[str, Any]) -> dict[str, Any]:
        try:
            return await _bounded(call.future, request["timeout"] + _PATIENCE)
        except TimeoutError:
            raise self._give_up(channel) from None
        except asyncio.CancelledError:
            channel.cancel(call)
            raise

    def _give_up(self, channel: Channel) -> SandboxDied:
        channel.close()
        return SandboxDied(
            "The sandbox does not answer any more.",
            hint="It was ended; the next command starts a new one on the same workspace.",
        )


async def _bounded(future: Future[dict[str, Any]], seconds: float) -> dict[str, Any]:
    """Await a future of another thread, with a bound that costs no task."""
    async with asyncio.timeout(seconds):
        return await asyncio.wrap_future(future)


def _as_builtin(error: FileFailed, path: str) -> Exception:
    kinds: dict[str, type[OSError]] = {
        "file_not_found": FileNotFoundError,
        "is_directory": IsADirectoryError,
        "not_a_directory": NotADirectoryError,
        "permission_denied": PermissionError,
        "timeout": TimeoutError,
    }
    if error.code == "invalid_path":
        return ValueError(f"{path}: {error}")
    return kinds.get(error.code, OSError)(f"{path}: {error}")
