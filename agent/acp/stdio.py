"""The protocol's messages on standard input and output: one JSON object a line."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["StdioTransport", "take_stdio"]

logger = logging.getLogger(__name__)

_PARSE_ERROR, _INVALID_REQUEST = -32700, -32600
_CHUNK = 65_536


def take_stdio() -> tuple[int, int]:
    """Keep standard input and output for the protocol.

    From now on programs that this one starts read nothing, and whatever else is printed goes to standard
    error.

    Returns:
        The descriptors to read from and to write to.
    """
    sys.stdout.flush()
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return source, sink


class StdioTransport:
    """Implements the transport of `acp`: `send`, `receive`, `close`.

    That of the library takes pipes only, and comes to an end at a line that is JSON but no object. This one
    takes files and terminals too, and answers such a line with the error that JSON-RPC has for it. A thread
    each reads and writes, so that a client that is slow to read never holds up the event loop.

    Args:
        source: descriptor to read from. Read without Python's buffers, whose lock a thread that waits for a
            line would hold at the end of the program.
        sink: descriptor to write to.
        clean: takes secrets out of errors: one that nobody has foreseen is told as it is. All else that is
            sent is without them where it is made.
    """

    def __init__(self, source: int, sink: int, clean: Callable[[Any], Any] = lambda error: error) -> None:
        self._source = source
        self._sink = sink
        self._clean = clean
        self._loop = asyncio.get_running_loop()
        self._incoming: asyncio.Queue[bytes] = asyncio.Queue()
        self._outgoing: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]] | None] = queue.SimpleQueue()
        # Daemons: a client that neither reads nor hangs up must not keep the program alive.
        threading.Thread(target=self._read, name="acp-read", daemon=True).start()
        threading.Thread(target=self._write, name="acp-write", daemon=True).start()

    async def send(self, message: dict[str, Any]) -> None:
        """Write one message, behind those that were sent before; returns when it is written.

        Raises:
            ConnectionError: nobody reads any more.
        """
        done: asyncio.Future[None] = self._loop.create_future()
        if "error" in message:
            message = {**message, "error": self._clean(message["error"])}
        self._outgoing.put((json.dumps(message, separators=(",", ":")).encode() + b"\n", done))
        await done

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None at the end of the input."""
        while line := await self._incoming.get():
            if not line.strip():
                continue
            try:
                message = json.loads(line)
            except (ValueError, RecursionError) as error:
                await self._refuse(_PARSE_ERROR, f"Parse error: a line must be one JSON object: {error}")
                continue
            if isinstance(message, dict):
                return message
            await self._refuse(_INVALID_REQUEST, "Invalid request: a line must be one JSON object.")
        return None

    async def close(self) -> None:
        """Write nothing more."""
        self._outgoing.put(None)

    async def _refuse(self, code: int, reason: str) -> None:
        await self.send({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": reason}})

    def _read(self) -> None:
        parts: list[bytes] = []
        while data := os.read(self._source, _CHUNK):
            *whole, rest = data.split(b"\n")
            for line in whole:
                if not self._tell(self._incoming.put_nowait, b"".join([*parts, line, b"\n"])):
                    return
                parts.clear()
            parts.append(rest)
        # What is behind the last newline was never sent to its end.
        self._tell(self._incoming.put_nowait, b"")

    def _write(self) -> None:
        while item := self._outgoing.get():
            data, done = item
            try:
                while data:
                    data = data[os.write(self._sink, data) :]
            except OSError as error:
                logger.info("the client has gone: %s", error)
                self._tell(_fail, done, ConnectionError("The client does not read any more."))
            else:
                self._tell(_succeed, done)

    def _tell(self, callback: Callable[..., Any], *arguments: Any) -> bool:
        """Call back on the event loop; False where that has ended."""
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            return False
        return True


def _succeed(done: asyncio.Future[None]) -> None:
    if not done.done():  # whoever sent it was cancelled
        done.set_result(None)


def _fail(done: asyncio.Future[None], error: Exception) -> None:
    if not done.done():
        done.set_exception(error)
