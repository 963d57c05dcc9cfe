"""A connection of a program in a sandbox, as asyncio has connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, Protocol, cast

__all__ = ["ConnectionStream", "StreamTransport"]

_GRANTED_FROM: Final = 64 * 1024
"""Bytes that have come since more was last granted, from which more is."""
_HIGH: Final = 256 * 1024
"""Bytes that wait for room, over which the writer is asked to pause."""
_LINGER: Final = 5.0
"""Seconds that a program has, once it has been sent all, to close its end."""


class ConnectionStream(Protocol):
    """The host's end of such a connection; may be called from any thread, never waits."""

    @property
    def room(self) -> int:
        """Bytes that may be sent at first."""
        ...

    def send(self, data: bytes) -> None: ...
    def grant(self, size: int) -> None: ...
    def end(self) -> None: ...
    def abort(self) -> None: ...


class StreamTransport(asyncio.Transport):
    """An asyncio transport over one connection.

    `came`, `ended`, `room` and `broke_off` may be called from any thread; all else is for the loop.

    Args:
        loop: where the protocol lives.
        stream: the connection.
        make_protocol: makes what is told what comes; called on the loop.
        over: called on the loop, once, when the connection is over.
    """

    # Asks asyncio for `loop.start_tls` on it: see asyncio.base_events.
    _start_tls_compatible = True

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        stream: ConnectionStream,
        *,
        make_protocol: Callable[[], asyncio.BaseProtocol],
        over: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        self._loop = loop
        self._stream = stream
        self._room = stream.room
        self._over = over
        self._make_protocol = make_protocol
        self._protocol: asyncio.BaseProtocol | None = None
        self._unsent: list[memoryview] = []
        self._waiting = 0
        self._high, self._low = _HIGH, _HIGH // 4
        self._writer_paused = self._reading_paused = False
        self._owed = 0
        self._held: list[bytes] = []
        self._eof_held = self._eof_came = self._eof_written = False
        self._closing = self._lost = False
        self._call(self._begin)

    # -- what happens to the connection, from any thread

    def came(self, data: bytes) -> None:
        self._call(self._came, data)

    def ended(self) -> None:
        self._call(self._ended)

    def room(self, size: int) -> None:
        self._call(self._more_room, size)

    def broke_off(self) -> None:
        self._call(self._lose, ConnectionResetError("the program has closed the connection"))

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            self._stream.abort()  # the loop has been closed, and with it the gateway

    # -- the same, on the loop

    def _begin(self) -> None:
        self._protocol = self._make_protocol()
        self._protocol.connection_made(self)

    def _came(self, data: bytes) -> None:
        if self._closing:
            # Nobody reads it any more. A program that has no room to write would not read its answer.
            self._stream.grant(len(data))
        elif self._reading_paused or self._held:
            self._held.append(data)
        else:
            self._deliver(data)

    def _deliver(self, data: bytes) -> None:
        self._owed += len(data)
        protocol = self._protocol
        if isinstance(protocol, asyncio.BufferedProtocol):
            view = memoryview(data)
            while view and not self._lost:
                buffer = cast("Any", protocol.get_buffer(len(view)))
                size = min(len(buffer), len(view))
                buffer[:size] = view[:size]
                view = view[size:]
                protocol.buffer_updated(size)
        else:
            cast("asyncio.Protocol", protocol).data_received(data)
        self._grant()

    def _grant(self) -> None:
        if self._owed >= _GRANTED_FROM and not self._reading_paused and not self._lost:
            self._stream.grant(self._owed)
            self._owed = 0

    def _ended(self) -> None:
        if self._held or self._reading_paused:
            self._eof_held = True
        elif not self._lost and not self._eof_came:
            self._eof_came = True
            if not self._closing and not cast("asyncio.Protocol", self._protocol).eof_received():
                self.close()

    def _more_room(self, size: int) -> None:
        self._room += size
        self._flush()

    def _lose(self, error: Exception | None) -> None:
        if self._lost:
            return
        self._lost = self._closing = True
        self._unsent.clear()
        self._held.clear()
        if self._protocol:
            self._protocol.connection_lost(error)
        self._protocol = None
        self._over()

    # -- asyncio.Transport

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing or self._eof_written or not data:
            return
        if not self._unsent and len(data) <= self._room:
            self._room -= len(data)
            self._stream.send(bytes(data))
            return
        self._unsent.append(memoryview(bytes(data)))
        self._waiting += len(data)
        self._flush()
        if self._waiting > self._high and not self._writer_paused and self._protocol:
            self._writer_paused = True
            self._protocol.pause_writing()

    def _flush(self) -> None:
        while self._unsent and self._room > 0 and not self._lost:
            piece = self._unsent[0][: self._room]
            rest = self._unsent[0][len(piece) :]
            if rest:
                self._unsent[0] = rest
            else:
                self._unsent.pop(0)
            self._room -= len(piece)
            self._waiting -= len(piece)
            self._stream.send(bytes(piece))
        if self._writer_paused and self._waiting <= self._low and self._protocol:
            self._writer_paused = False
            self._protocol.resume_writing()
        if not self._unsent and not self._lost:
            if self._eof_written:
                self._stream.end()
            if self._closing:
                self._finish()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if not self._closing and not self._eof_written:
            self._eof_written = True
            self._flush()

    def close(self) -> None:
        """What was written is sent yet, as the program takes it."""
        if self._closing:
            return
        self._closing = True
        self._held.clear()
        self._flush()

    def _finish(self) -> None:
        self._stream.end()
        if not self._eof_came:
            # Not at once: a reset would take from the program what it has not read yet.
            self._loop.call_later(_LINGER, self._stream.abort)
        self._loop.call_soon(self._lose, None)

    def abort(self) -> None:
        self._force_close(None)

    def _force_close(self, error: Exception | None) -> None:
        # asyncio's TLS calls it, of every transport that it stands on.
        self._stream.abort()
        if not self._lost:
            self._closing = True
            self._unsent.clear()
            self._loop.call_soon(self._lose, error)

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        self._reading_paused = True

    def resume_reading(self) -> None:
        self._reading_paused = False
        while self._held and not self._reading_paused:
            self._deliver(self._held.pop(0))
        if not self._reading_paused:
            self._grant()
            if self._eof_held:
                self._eof_held = False
                self._ended()

    def is_reading(self) -> bool:
        return not self._reading_paused and not self._closing

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return cast("asyncio.BaseProtocol", self._protocol)

    def get_write_buffer_size(self) -> int:
        return self._waiting

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = _HIGH if high is None and low is None else 4 * (low or 0) if high is None else high
        self._low = self._high // 4 if low is None else low
