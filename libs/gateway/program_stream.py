"""The connection of a program in a sandbox, over the channel of the sandbox."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from libs.gateway.gateway_streams import Stream

__all__ = ["ChannelConnection", "ProgramStream"]

_LINGER: Final = 5.0
"""Seconds that a program has to close its end after the last byte."""


class ChannelConnection(Protocol):
    """The host's end of the connection. Thread-safe; never blocks."""

    @property
    def room(self) -> int:
        """Initial send credit, in bytes."""
        ...

    @property
    def request(self) -> int:
        """The running request of the sandbox whose program has connected; 0 if unknown."""
        ...

    def send(self, data: bytes) -> None: ...
    def grant(self, size: int) -> None: ...
    def end(self) -> None: ...
    def abort(self) -> None: ...


class ProgramStream(Stream):
    """A connection of a program.

    `came`, `ended`, `room` and `broke_off` may be called from any thread, everything else on the loop. The
    program gets new credit for bytes that are read, a quarter of a window at once. So the host keeps at most
    one window of bytes.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        connection: ChannelConnection,
        refused: Callable[[], set[str] | None] = lambda: None,
    ) -> None:
        self._loop = loop
        self._connection = connection
        self._refused_now = refused
        self.refused = refused()
        """The set of `GatewayDoor.refuse`, if the program has connected or sent something while that returned
        one. Nothing of this connection gets out from then on, however late it is read."""
        self.request = connection.request
        self._room = connection.room
        self._window = connection.room
        self._owed = 0
        """Bytes that were read, but not granted again."""
        self._unread: deque[bytes] = deque()
        self._end_came = self._closed = self._lost = False
        self._readable, self._writable = asyncio.Event(), asyncio.Event()

    # -- events of the connection, from any thread

    def came(self, data: bytes) -> None:
        if (refused := self._refused_now()) is not None:
            self.refused = refused
        self._call(lambda: self._take(data))

    def ended(self) -> None:
        self._call(self._take_end)

    def room(self, size: int) -> None:
        self._call(lambda: self._take_room(size))

    def broke_off(self) -> None:
        self._call(self._lose)

    def _call(self, function: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:
            self._connection.abort()  # the loop is closed

    def _take(self, data: bytes) -> None:
        if self._closed:
            # The data is dropped. Without new credit the program would block before it reads its answer.
            self._connection.grant(len(data))
        else:
            self._unread.append(data)
            self._readable.set()

    def _take_end(self) -> None:
        self._end_came = True
        self._readable.set()

    def _take_room(self, size: int) -> None:
        self._room += size
        self._writable.set()

    def _lose(self) -> None:
        self._lost = True
        self._readable.set()
        self._writable.set()

    # -- Stream

    async def read(self) -> bytes:
        while not (self._unread or self._end_came):
            self._check()
            self._readable.clear()
            await self._readable.wait()
        if not self._unread:
            return b""
        data = self._unread.popleft()
        self._owed += len(data)
        if self._owed >= self._window // 4:  # not at each read: a frame costs as much as a small request
            self._connection.grant(self._owed)
            self._owed = 0
        return data

    async def write(self, data: bytes) -> None:
        self._check()
        view = memoryview(data)
        while view:
            while not self._room:
                self._writable.clear()
                await self._writable.wait()
                self._check()
            piece, view = view[: self._room], view[self._room :]
            self._room -= len(piece)
            self._connection.send(bytes(piece))

    def _check(self) -> None:
        if self._lost:
            raise ConnectionResetError("the program has closed the connection")

    def end(self) -> None:
        self._connection.end()

    async def close(self, seconds: float) -> None:  # noqa: ARG002 - nothing is left to send
        self._closed = True
        self._connection.end()
        if not self._end_came:
            # Later, because a reset would destroy data that the program has not read.
            self._loop.call_later(_LINGER, self._connection.abort)

    def reset(self) -> None:
        self._closed = True
        self._connection.abort()
        self._lose()
