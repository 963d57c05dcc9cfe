"""Talks to an MCP server that is a program: a transport of the SDK whose memory is bounded.

The SDK's own transport needs a time that grows with the square of a line's length, and takes lines of any
length.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

from libs.servers.server_log import OpenLog, ServerLog

__all__ = ["MOST_LINE", "Pipes", "program_streams"]

logger = logging.getLogger(__name__)

MOST_LINE: Final = 16 * 2**20
"""Bytes of the largest message of a server. Up to twice as many are kept in memory."""
_MOST_UNANSWERED: Final = 256
"""Requests of a server that wait for it to read an answer. A server that reads nothing is ended."""
_FLUSH_SECONDS: Final = 0.5
_EDGE: Final = 200
"""Bytes at each end of a message that is too large, where its id is looked for."""
_ID_FIRST: Final = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18})\s*,')
_ID_LAST: Final = re.compile(rb',\s*"id"\s*:\s*(\d{1,18})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')

_UNREADABLE: Final = (
    "the server has answered, but the answer cannot be read: it does not follow the protocol, is not JSON in "
    "UTF-8, is nested too deeply, or holds half of a surrogate pair, such as half of an emoji"
)

Received = SessionMessage | Exception
Streams = tuple[MemoryObjectReceiveStream[Received], MemoryObjectSendStream[SessionMessage]]


@dataclass(frozen=True, slots=True)
class Pipes:
    """Standard streams of a program that runs. The reader of its output takes lines of MOST_LINE."""

    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader
    unused: asyncio.StreamWriter | None = None
    """The other direction of `stderr`, if the program has connections for pipes."""

    def close(self) -> None:
        """Close the input and the connection of the errors. Errors that were not read are lost."""
        for writer in (self.stdin, self.unused):
            if writer is not None:
                writer.close()


@asynccontextmanager
async def program_streams(
    running: AbstractAsyncContextManager[Pipes], ended: asyncio.Event, log: ServerLog
) -> AsyncIterator[Streams]:
    """Start a server, and provide the streams of its messages. Afterwards the server is ended.

    Args:
        running: starts the program, and ends it afterwards.
        ended: set when the program has closed its output, or cannot be talked to any more.
        log: of the errors that the program prints.

    Raises:
        OSError: the log cannot be written; and what `running` raises.
    """
    with await asyncio.to_thread(log.open) as file:
        kept: list[asyncio.Task[None]] = []
        try:
            async with running as pipes:
                program = _Program(pipes, ended)
                writing = asyncio.create_task(program.write())
                kept += [asyncio.create_task(program.read()), asyncio.create_task(program.keep(file))]
                try:
                    yield program.received, program.to_send
                finally:
                    ended.set()
                    program.received.close()
                    program.to_send.close()
                    try:
                        await asyncio.wait([writing], timeout=_FLUSH_SECONDS)
                    finally:
                        writing.cancel()
                    await asyncio.wait([writing])
        finally:
            # The output is read until the program has ended, because a program that cannot write does not
            # end. What it has printed last may still be in the pipe, which a process of the program may keep
            # open.
            if kept:
                try:
                    await asyncio.wait(kept, timeout=_FLUSH_SECONDS)
                finally:
                    for task in kept:
                        task.cancel()
                    pipes.close()
                await asyncio.wait(kept)


class _Program:
    """Carries messages between a process and the two streams of a session."""

    def __init__(self, pipes: Pipes, ended: asyncio.Event) -> None:
        self._stdin, self._stdout, self._stderr = pipes.stdin, pipes.stdout, pipes.stderr
        self._ended = ended
        self._arriving, self.received = anyio.create_memory_object_stream[Received]()
        self.to_send, self._leaving = anyio.create_memory_object_stream[SessionMessage]()
        self._unanswered = 0

    async def read(self) -> None:
        """Pass on what the server sends, until it closes its output."""
        try:
            async with self._arriving:
                while (message := await self._next()) is not None and self._unanswered <= _MOST_UNANSWERED:
                    if isinstance(message, SessionMessage) and isinstance(message.message, JSONRPCRequest):
                        self._unanswered += 1
                    await self._arriving.send(message)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            pass  # the session has ended, or the process
        finally:
            self._ended.set()
        with suppress(OSError):
            while await self._stdout.read(2**16):
                pass  # a program that cannot write does not end

    async def write(self) -> None:
        """Send messages, until the session ends or the server takes no more."""
        with suppress(OSError):
            async with self._leaving:
                async for message in self._leaving:
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    self._stdin.write(f"{text}\n".encode())
                    await self._stdin.drain()
                    if isinstance(message.message, JSONRPCResponse | JSONRPCError):
                        self._unanswered -= 1
        self._arriving.close()

    async def keep(self, log: OpenLog) -> None:
        """Write what the server prints as errors into its log."""
        while data := await self._stderr.read(2**16):
            log.write(data)

    async def _next(self) -> Received | None:
        """Return the next message. None at the end."""
        try:
            line = await self._stdout.readuntil(b"\n")
        except asyncio.IncompleteReadError:
            return None
        except asyncio.LimitOverrunError as error:
            return await self._too_large(error)
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError as error:
            number = _answered_call(line)
            return error if number is None else _failed(number, _UNREADABLE)

    async def _too_large(self, overrun: asyncio.LimitOverrunError) -> Received | None:
        """Drop a message that is too large, and return an error for its call. None if its id is not found."""
        first, last = b"", b""
        while True:
            piece = await self._stdout.readexactly(overrun.consumed)
            first, last = first or piece[:_EDGE], (last + piece[-_EDGE:])[-_EDGE:]
            try:
                rest = await self._stdout.readuntil(b"\n")
                break
            except asyncio.LimitOverrunError as error:
                overrun = error
            except asyncio.IncompleteReadError:
                return None
        found = _ID_FIRST.match(first) or _ID_LAST.search((last + rest)[-_EDGE:])
        if found is None:
            logger.warning("an MCP server has sent a message of more than %d bytes", MOST_LINE)
            return None
        return _failed(
            int(found[1]), f"the result has over {MOST_LINE:,} bytes: ask the server for a part of it"
        )


def _answered_call(line: bytes) -> int | None:
    """Return the id of the call that a message answers, which the SDK cannot read. None if there is none."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        found = _ID_FIRST.match(line[:_EDGE]) or _ID_LAST.search(line[-_EDGE:])
        return int(found[1]) if found and b'"method"' not in line[:_EDGE] else None
    # A line of a log that a server prints may have an id, too.
    number = said.get("id") if isinstance(said, dict) and {"result", "error"} & said.keys() else None
    return number if isinstance(number, int) else None


def _failed(call: int, why: str) -> SessionMessage:
    error = ErrorData(code=INTERNAL_ERROR, message=why)
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=call, error=error))
