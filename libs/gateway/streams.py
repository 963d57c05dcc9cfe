"""Connections as the gateway reads and writes them: plain, with TLS ended in them, with HTTP on them."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

import h11

from libs.gateway.errors import GatewayError
from libs.gateway.limits import Meter

__all__ = ["MOST_HEAD", "PIECE", "Duplex", "EndedTls", "Peer", "Stream"]

PIECE: Final = 256 * 1024
"""Bytes that are read at once, at most."""
MOST_HEAD: Final = 64 * 1024
"""Bytes of the head of a request or an answer."""
_MOST_LINGER: Final = 4 * 2**20
"""Bytes that are still read of a program that was answered before it had sent all."""
_RECORDS: Final = 64 * 1024
_IN_A_ROW: Final = 64


class Duplex(Protocol):
    """Both directions of a connection. What is written is taken when `write` returns, or room is made."""

    async def read(self) -> bytes:
        """What has come, at least a byte of it; empty at the end. Raises OSError."""
        ...

    async def write(self, data: bytes) -> None:
        """Send. Raises OSError."""
        ...


class Stream:
    """A connection as it is."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def read(self) -> bytes:
        return await self.reader.read(PIECE)

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def close(self, seconds: float) -> None:
        """Close once all is sent, or `seconds` have gone by. What was not taken until then is lost."""
        self.writer.close()
        await self._closed(seconds)

    async def finish(self, seconds: float) -> None:
        """The same for one that may be sending yet: it is read, so that no reset takes its answer away."""
        try:
            async with asyncio.timeout(seconds):
                if self.writer.can_write_eof():
                    self.writer.write_eof()
                read = 0
                while read < _MOST_LINGER and (data := await self.read()):
                    read += len(data)
        except OSError:
            pass  # time is up, or it is gone
        except BaseException:
            self.writer.transport.abort()  # or the program would wait for ever
            raise
        await self.close(seconds)

    async def abort(self) -> None:
        """Close at once, so that the other end learns that something is missing."""
        self.writer.transport.abort()
        await self._closed(1)

    async def _closed(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self.writer.wait_closed()
        except TimeoutError:
            self.writer.transport.abort()
        except OSError:
            pass  # how it ended makes no difference any more
        except BaseException:
            self.writer.transport.abort()
            raise


class EndedTls:
    """The server's side of TLS within another connection, some of which may have been read already."""

    def __init__(self, below: Duplex, context: ssl.SSLContext, read: bytes) -> None:
        self._below = below
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._in.write(read)
        self._tls = context.wrap_bio(self._in, self._out, server_side=True)

    async def handshake(self) -> None:
        """Agree on keys. Raises OSError."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._more()
            except ssl.SSLError:
                with suppress(OSError):
                    await self._flush()  # says why
                raise
            else:
                return await self._flush()

    async def read(self) -> bytes:
        pieces: list[bytes] = []
        size = 0
        while True:
            try:
                while size < _RECORDS and (piece := self._tls.read(_RECORDS)):
                    pieces.append(piece)
                    size += len(piece)
                return b"".join(pieces)
            except ssl.SSLWantReadError:
                if pieces:
                    return b"".join(pieces)
                await self._more()
            except ssl.SSLEOFError:
                return b"".join(pieces)

    async def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self._tls.write(view) :]
        await self._flush()

    async def end(self) -> None:
        """Say that nothing follows."""
        with suppress(ssl.SSLError):
            self._tls.unwrap()
        await self._flush()

    async def _more(self) -> None:
        await self._flush()
        if data := await self._below.read():
            self._in.write(data)
        else:
            self._in.write_eof()

    async def _flush(self) -> None:
        if data := self._out.read():
            await self._below.write(data)


class Peer:
    """HTTP/1.1 with one side."""

    def __init__(
        self,
        stream: Duplex,
        http: h11.Connection,
        fault: Callable[[h11.RemoteProtocolError], GatewayError],
        gone: Callable[[OSError], Exception] = lambda error: error,
    ) -> None:
        """Take a connection and what reads HTTP on it.

        Args:
            stream: the connection.
            http: knows which side this is.
            fault: what is raised where it sends what is no HTTP.
            gone: what is raised where the connection breaks off.
        """
        self.stream = stream
        self.http = http
        self._fault = fault
        self.gone = gone
        self._in_a_row = 0

    async def event(self, meter: Meter) -> h11.Event:
        """What comes next. Raises GatewayError where it is no HTTP, or too much; OSError or `gone`."""
        self._in_a_row += 1
        if self._in_a_row == _IN_A_ROW:
            # A piece of 256 KB may hold tens of thousands of chunks: others have their turn in between.
            self._in_a_row = 0
            meter.add()
            await asyncio.sleep(0)
        while True:
            try:
                event = self.http.next_event()
            except h11.RemoteProtocolError as error:
                raise self._fault(error) from None
            if isinstance(event, h11.Event):
                return event
            try:
                data = await self.stream.read()
            except OSError as error:
                raise self.gone(error) from None
            self.receive(data, meter)
            if meter.over:
                raise meter.overrun()

    def receive(self, data: bytes, meter: Meter) -> None:
        """Take what was read; empty at the end."""
        self._in_a_row = 0
        if self.http.our_role is h11.CLIENT:
            meter.add(came=len(data))
        else:
            meter.add(went=len(data))
        self.http.receive_data(data)

    async def send(self, *events: h11.Event) -> None:
        """Send. Raises OSError or `gone`."""
        pieces: list[bytes] = []
        for event in events:
            pieces += self.http.send_with_data_passthrough(event) or []
        if not pieces:
            return
        try:
            await self.stream.write(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        except OSError as error:
            raise self.gone(error) from None
