"""Bytes that pass both ways untouched: what comes from outside is handed on as it comes, without a copy."""

from __future__ import annotations

import asyncio
import socket
from functools import partial
from typing import Final, cast

from libs.gateway.errors import GatewayError
from libs.gateway.limits import Meter
from libs.gateway.streams import Stream

__all__ = ["Outside", "tunnel"]

_HIGH: Final = 512 * 1024
"""Bytes that wait for a program to take them, over which no more are read from outside."""


class Outside(asyncio.Protocol):
    """A connection to a host. Nothing is read of it until `start`."""

    def __init__(self, near: Stream, meter: Meter) -> None:
        self._near = near
        self._meter = meter
        loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = loop.create_future()
        """Done when nothing more comes: the host has sent all, or is gone, or sends too much."""
        self.lost: asyncio.Future[None] = loop.create_future()
        """Done when the connection is closed."""
        self.broken = False
        """Whether it ended otherwise than the host meant it to."""
        self.full = asyncio.Event()
        """Set while nothing is read, since the program does not take what has come."""
        self._writable = asyncio.Event()
        self._writable.set()
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def over(cls, sock: socket.socket, near: Stream, meter: Meter) -> Outside:
        """Take a socket that is connected. Raises OSError."""
        loop = asyncio.get_running_loop()
        _, far = await loop.create_connection(partial(cls, near, meter), sock=sock)
        return far

    def start(self, first: bytes) -> None:
        """Send what comes first, and begin to hand on what comes. Raises OSError."""
        self._send(first)
        self._opened().resume_reading()

    async def send(self, data: bytes) -> None:
        """Send. Raises OSError."""
        self._send(data)
        await self.room()

    async def room(self) -> None:
        """Wait until there is room for more."""
        if not self._writable.is_set():
            await self._writable.wait()

    def _send(self, data: bytes) -> None:
        if self.lost.done():
            raise ConnectionResetError("the host has closed the connection")
        self._opened().write(data)

    def end(self) -> None:
        """Nothing more is sent."""
        if not self.lost.done():
            self._opened().write_eof()

    def resume(self) -> None:
        """Go on reading."""
        self.full.clear()
        if not self.ended.done():
            self._opened().resume_reading()

    async def close(self, seconds: float) -> None:
        """Close once all is sent, or `seconds` have gone by."""
        transport = self._opened()
        if seconds > 0:
            transport.close()
            await asyncio.wait([self.lost], timeout=seconds)
        transport.abort()
        await asyncio.wait([self.lost])

    def _opened(self) -> asyncio.Transport:
        if self._transport is None:
            raise ConnectionError("there is no connection yet")
        return self._transport

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        self._meter.add(came=len(data))
        writer = self._near.writer
        if self._meter.over or writer.is_closing():
            self._end(broken=True)
            self._opened().abort()
            return
        writer.write(data)
        if writer.transport.get_write_buffer_size() > _HIGH:
            self._opened().pause_reading()
            self.full.set()

    def eof_received(self) -> bool:
        self._end(broken=False)
        return True  # the program may go on sending

    def connection_lost(self, error: Exception | None) -> None:
        self._end(broken=error is not None)
        self._writable.set()
        if not self.lost.done():
            self.lost.set_result(None)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _end(self, *, broken: bool) -> None:
        if not self.ended.done():
            self.broken = broken
            self.ended.set_result(None)


async def tunnel(near: Stream, far: Outside, first: bytes, *, host: str, meter: Meter, idle: float) -> None:
    """Pass on what comes, until both sides have sent all; each may close its direction before the other.

    Args:
        near: the program's side.
        far: the host's.
        first: what was already read of the program's.
        host: for what is said.
        meter: counts.
        idle: seconds without a byte after which it ends.

    Raises:
        GatewayError: too many bytes, or none for too long. Nothing can be said inside any more.
        OSError: one side is gone.
    """
    loop = asyncio.get_running_loop()
    # At once, and not by a task: the host begins to answer while those are made.
    far.start(first)
    upload = loop.create_task(_upload(near, far, meter))
    relief = loop.create_task(_relieve(near, far))
    try:
        told = False
        while not (upload.done() and far.ended.done()):
            if (left := meter.left(idle)) <= 0:
                raise GatewayError(504, f"{host} is cut off: nothing has moved for {idle:g} s")
            awaited: set[asyncio.Future[None]] = {relief}
            awaited.update(future for future in (upload, far.ended, far.lost) if not future.done())
            await asyncio.wait(awaited, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if meter.over:
                raise meter.overrun()
            for task in (upload, relief):
                if task.done():
                    task.result()
            if far.ended.done() and far.broken:
                raise ConnectionResetError(f"{host} has broken off the connection")
            if far.ended.done() and not told:
                told = True
                if near.writer.can_write_eof():
                    near.writer.write_eof()
            if far.lost.done() or (told and not near.writer.can_write_eof()):
                return
    finally:
        for task in (upload, relief):
            task.cancel()
        await asyncio.gather(upload, relief, return_exceptions=True)


async def _upload(near: Stream, far: Outside, meter: Meter) -> None:
    await far.room()
    while data := await near.read():
        meter.add(went=len(data))
        if meter.over:
            raise meter.overrun()
        await far.send(data)
    far.end()


async def _relieve(near: Stream, far: Outside) -> None:
    """Read on outside whenever the program has taken what had come."""
    while True:
        await far.full.wait()
        await near.writer.drain()
        far.resume()
