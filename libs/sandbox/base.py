"""What every sandbox does with its channel: start on first use, run, handle files, replace what has died."""

from __future__ import annotations

import asyncio
import json
import struct
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from libs.sandbox.channel import Answer, Call, Channel
from libs.sandbox.errors import SandboxBusy, SandboxDied, SandboxError
from libs.sandbox.frames import MAX_PAYLOAD, REQUEST, Ending, Fd, Worker
from libs.sandbox.handover import Handover
from libs.sandbox.limits import MAX_TIMEOUT, SandboxLimits
from libs.sandbox.messages import INTERRUPTED, BlockRequest, OutputReport, RunReport, RunRequest
from libs.sandbox.protocol import FileFailed, OnOutput, RunResult
from libs.sandbox.workspace import FOLDERS

__all__ = ["ChannelSandbox"]

MAX_COMMAND = 16 * 1024 * 1024
"""Bytes of the longest command."""

_FILE_SECONDS = 30.0
"""Seconds a file operation may take; content adds a second for each 10 MB."""
_PATIENCE = 10.0
"""Seconds over a request's own time-out after which a sandbox that does not answer is given up."""


class ChannelSandbox(ABC):
    """A sandbox behind a channel. Implements `libs.sandbox.protocol.Sandbox`; see there for every method."""

    isolated: bool
    """Whether commands are kept apart from this machine: only then may they be a model's."""

    def __init__(self, name: str, limits: SandboxLimits) -> None:
        self.name = name
        self.limits = limits
        self.protected = ["/workspace", "/skills", "/tmp/home", *(f"/{folder}" for folder in FOLDERS)]  # noqa: S108
        """Paths inside that are never deleted, nor what holds them."""
        self._channel: Channel | None = None
        self._handover: Handover | None = None
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
        seconds, payload = self._run_request(command, timeout, merge_stderr, env, live=on_output is not None)
        channel = self._ready()
        call = channel.request(payload, on_output=on_output)
        return self._run_result(call, self._wait(channel, call, seconds), seconds)

    async def arun(
        self,
        command: str,
        *,
        timeout: float | None = None,
        on_output: OnOutput | None = None,
        merge_stderr: bool = True,
        env: Mapping[str, str] = {},
    ) -> RunResult:
        seconds, payload = self._run_request(command, timeout, merge_stderr, env, live=on_output is not None)
        channel = await self._aready()
        call = channel.request(payload, on_output=on_output)
        return self._run_result(call, await self._await(channel, call, seconds), seconds)

    def run_python(
        self,
        code: str,
        *,
        session: str,
        timeout: float | None = None,
        on_output: OnOutput | None = None,
    ) -> RunResult:
        seconds, payload = self._block_request(code, session, timeout)
        channel = self._ready()
        call = channel.request(payload, on_output=on_output)
        return self._block_result(call, self._wait(channel, call, seconds), seconds)

    async def arun_python(
        self,
        code: str,
        *,
        session: str,
        timeout: float | None = None,
        on_output: OnOutput | None = None,
    ) -> RunResult:
        seconds, payload = self._block_request(code, session, timeout)
        channel = await self._aready()
        call = channel.request(payload, on_output=on_output)
        return self._block_result(call, await self._await(channel, call, seconds), seconds)

    def _block_request(self, code: str, session: str, timeout: float | None) -> tuple[float, bytes]:
        seconds = self._seconds(timeout)
        request = BlockRequest(session.encode()[:65_535], _encoded(code), self.limits.output_chars)
        return seconds, REQUEST.pack(Worker.PYTHON, seconds) + request.encode()

    def _block_result(self, call: Call, answer: Answer, seconds: float) -> RunResult:
        report = _report(answer, seconds)
        kept = report.exit_code == INTERRUPTED
        return self._result(
            call,
            answer,
            report,
            seconds,
            timed_out="the block was interrupted, its variables are kept"
            if kept
            else "the interpreter was ended, its variables are lost",
            lost="the block ended the process that kept the interpreter: its variables are lost",
        )

    def _run_request(
        self,
        command: str,
        timeout: float | None,
        merge_stderr: bool,
        env: Mapping[str, str],
        *,
        live: bool,
    ) -> tuple[float, bytes]:
        seconds = self._seconds(timeout)
        if "\0" in command or any("\0" in text for item in env.items() for text in item):
            raise ValueError("a command and its variables cannot hold a NUL character")
        if any(not name or "=" in name for name in env):
            raise ValueError("the name of a variable must be there, and cannot hold '='")
        variables = [_encoded(f"{name}={value}") for name, value in env.items()]
        request = RunRequest(_encoded(command), self.limits.output_chars, merge_stderr, live, variables)
        return seconds, REQUEST.pack(Worker.RUN, seconds) + request.encode()

    def _seconds(self, timeout: float | None) -> float:
        seconds = self.limits.timeout if timeout is None else timeout
        if not 0 < seconds <= MAX_TIMEOUT:
            raise ValueError(f"timeout is {seconds}: it must be over 0 and at most {MAX_TIMEOUT:g} seconds")
        return seconds

    def _run_result(self, call: Call, answer: Answer, seconds: float) -> RunResult:
        return self._result(
            call,
            answer,
            _report(answer, seconds),
            seconds,
            timed_out="everything the command started was ended",
            lost="the command ended the process that ran it: everything it started was ended",
        )

    def _result(
        self, call: Call, answer: Answer, report: RunReport, seconds: float, *, timed_out: str, lost: str
    ) -> RunResult:
        if answer.ending == Ending.BUSY:
            raise SandboxBusy(
                f"The sandbox cannot start the command: its {self.limits.pids} processes, or its commands "
                "at once, are used up.",
                hint="What earlier commands had left running in the background was ended: run it again. "
                "If that is not enough, wait for commands that still run, or raise SANDBOX_PIDS.",
            )
        if answer.ending == Ending.WAITED:
            raise SandboxBusy(
                f"The command waited for its turn for {seconds:g} s, its whole time-out, and was not begun.",
                hint="So many commands run at once: wait for some to end, or end them.",
            )
        late = answer.ending == Ending.TIMEOUT
        output, *errors = [
            text_of(b"".join(call.data[fd]), b"".join(call.tail[fd]), item, self.limits.output_chars)
            for fd, item in zip((Fd.OUT, Fd.ERR), [*report.outputs, None][:2], strict=False)
        ]
        note = ""
        if late:
            note = f"[timed out after {seconds:g} s: {timed_out}]"
        elif answer.ending == Ending.LOST:
            note = f"[{lost}]"
        if note:
            output += "\n" * bool(output and not output.endswith("\n")) + note
        spilled = [item.spill_path.decode() for item in report.outputs if item.spill_path]
        return RunResult(
            output=output,
            stderr="".join(errors),
            exit_code=124 if late else report.exit_code,
            truncated=any(item.chars > self.limits.output_chars for item in report.outputs),
            timed_out=late,
            spill_path=spilled[0] if spilled else None,
            seconds=report.seconds,
        )

    # -- files

    def file(
        self, do: str, *, content: bytes | None = None, **arguments: Any
    ) -> tuple[dict[str, Any], bytes]:
        seconds, payload = self._file_request(do, content, arguments)
        channel = self._ready()
        call = channel.request(payload, content=content or b"")
        return self._file_result(call, self._wait(channel, call, seconds), seconds)

    async def afile(
        self, do: str, *, content: bytes | None = None, **arguments: Any
    ) -> tuple[dict[str, Any], bytes]:
        seconds, payload = self._file_request(do, content, arguments)
        channel = await self._aready()
        call = channel.request(payload, content=content or b"")
        return self._file_result(call, await self._await(channel, call, seconds), seconds)

    def _file_request(self, do: str, content: bytes | None, arguments: dict[str, Any]) -> tuple[float, bytes]:
        if any("\0" in value for value in arguments.values() if isinstance(value, str)):
            raise FileFailed("invalid_path", "a path cannot hold a NUL character")
        if content is not None:
            arguments["size"] = len(content)
        if do == "delete":
            arguments["protected"] = self.protected
        seconds = _FILE_SECONDS + len(content or b"") / 10e6
        request = json.dumps({"do": do, "arguments": arguments}, ensure_ascii=False)
        payload = REQUEST.pack(Worker.FILE, seconds) + request.encode("utf-8", "surrogatepass")
        if len(payload) > MAX_PAYLOAD:
            raise FileFailed("too_large", f"the request is larger than {MAX_PAYLOAD >> 20} MB")
        return seconds, payload

    def _file_result(self, call: Call, answer: Answer, seconds: float) -> tuple[dict[str, Any], bytes]:
        if answer.ending == Ending.TIMEOUT:
            raise FileFailed("timeout", f"it took over {seconds:g} s")
        if answer.ending == Ending.BUSY:
            raise SandboxBusy(
                "The sandbox cannot handle files now: its process limit is used up.",
                hint="What earlier commands had left running in the background was ended: try again.",
            )
        if answer.ending == Ending.WAITED:
            raise FileFailed("timeout", f"it waited for its turn for {seconds:g} s")
        if answer.ending != Ending.DONE:
            raise FileFailed("failed", "what served it was ended by a command; try again")
        message: dict[str, Any] = json.loads(answer.body.decode("utf-8", "surrogatepass"))
        if error := message.get("error"):
            raise FileFailed(error, message.get("detail", error))
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

    async def areset(self) -> None:
        await asyncio.to_thread(self.reset)

    async def aclose(self) -> None:
        await asyncio.to_thread(self.close)

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

    def _ready(self) -> Channel:
        """The channel of a sandbox that lives and may change all that is in its workspace."""
        channel = self._live() or self._start()
        if self._handover and self._handover.news():
            self._catch_up()
        return channel

    async def _aready(self) -> Channel:
        channel = self._live()
        if channel is None:
            channel = await asyncio.to_thread(self._start)
        if self._handover and self._handover.news():
            await asyncio.to_thread(self._catch_up)
        return channel

    def _catch_up(self) -> None:
        with self._starting:  # one at a time, and not while it is being closed
            if self._handover:
                self._handover.catch_up()

    # -- waiting

    def _wait(self, channel: Channel, call: Call, seconds: float) -> Answer:
        try:
            return call.future.result(seconds + _PATIENCE)
        except TimeoutError:
            raise self._give_up(channel) from None
        except SandboxError:
            raise
        except BaseException:
            channel.cancel(call)
            raise

    async def _await(self, channel: Channel, call: Call, seconds: float) -> Answer:
        try:
            async with asyncio.timeout(seconds + _PATIENCE):
                return await asyncio.wrap_future(call.future)
        except TimeoutError:
            # Ending it asks the Engine, and waits: not on the event loop.
            raise await asyncio.to_thread(self._give_up, channel) from None
        except asyncio.CancelledError:
            channel.cancel(call)
            raise

    def _give_up(self, channel: Channel) -> SandboxDied:
        channel.close()
        return SandboxDied(
            "The sandbox does not answer any more.",
            hint="It was ended; the next command starts a new one on the same workspace.",
        )


def _report(answer: Answer, seconds: float) -> RunReport:
    try:
        return RunReport.decode(answer.body)
    except struct.error:  # nobody was left to report
        return RunReport(137, seconds, [])


def _encoded(command: str) -> bytes:
    try:
        encoded = command.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise ValueError(f"the command holds what is no character: {error}") from None
    if len(encoded) > MAX_COMMAND:
        raise ValueError(f"the command has {len(encoded)} bytes: at most {MAX_COMMAND} are run")
    return encoded


def text_of(head: bytes, tail: bytes, report: OutputReport | None, limit: int) -> str:
    """An output as text; where it is over the limit, its middle replaced by a line that says so."""
    if report is None or report.chars <= limit:
        return (head + tail).decode("utf-8", "replace")
    if report.total == len(head) + len(tail):
        first = last = (head + tail).decode("utf-8", "replace")
    else:
        # More was left out inside: the tail may begin within a character, long before what is shown.
        first, last = head.decode("utf-8", "replace"), tail.decode("utf-8", "replace")
    half = limit // 2
    path = report.spill_path.decode()
    if not path or not report.spilled:
        where = "it could not be kept: the workspace takes no more"
    elif report.spilled < report.total:
        where = f"its first {report.spilled:,} bytes are in {path}"
    else:
        where = f"the whole output is in {path}"
    left_out = report.chars - 2 * half
    return f"{first[:half]}\n[… {left_out:,} characters left out; {where} …]\n{last[-half:]}"


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
