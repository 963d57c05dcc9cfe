"""Connections of the gateway: plain, with TLS, and with HTTP."""

from __future__ import annotations

import asyncio
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

import h11

from libs.gateway.gateway_errors import GatewayError
from libs.gateway.gateway_limits import Meter

__all__ = ["MOST_HEAD", "Duplex", "EndedTls", "Peer", "SocketStream", "Stream"]

_PIECE: Final = 256 * 1024
"""Largest read, in bytes."""
MOST_HEAD: Final = 64 * 1024
"""Largest head of a request or answer, in bytes."""
_MOST_LINGER: Final = 4 * 2**20
"""Bytes that are read and dropped after an early answer."""
_RECORD: Final = 16 * 1024
"""Bytes of one TLS record."""
_IN_A_ROW: Final = 64


class Duplex(Protocol):
    """A connection that can be read and written."""

    async def read(self) -> bytes:
        """Return received bytes, at least one; empty at the end. Raises OSError."""
        ...

    async def write(self, data: bytes) -> None:
        """Send, and wait while the other end does not read. Raises OSError."""
        ...


class Stream(ABC):
    """A plain connection, a `Duplex`."""

    @abstractmethod
    async def read(self) -> bytes: ...

    @abstractmethod
    async def write(self, data: bytes) -> None: ...

    @abstractmethod
    def end(self) -> None:
        """End the sending direction."""

    @abstractmethod
    async def close(self, seconds: float) -> None:
        """Close after all data is sent, or after `seconds`; the rest is lost then."""

    @abstractmethod
    def reset(self) -> None:
        """Close at once, which tells the other end that data is missing."""

    async def finish(self, seconds: float) -> None:
        """Close a connection that may still send. Reads on, because a reset would destroy the answer."""
        try:
            async with asyncio.timeout(seconds):
                self.end()
                read = 0
                while read < _MOST_LINGER and (data := await self.read()):
                    read += len(data)
        except OSError:
            pass  # the time is up, or the program has closed the connection
        except BaseException:
            self.reset()  # otherwise the program would wait forever
            raise
        await self.close(seconds)


class SocketStream(Stream):
    """A connection of asyncio."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def read(self) -> bytes:
        return await self.reader.read(_PIECE)

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def end(self) -> None:
        if self.writer.can_write_eof():
            self.writer.write_eof()

    async def close(self, seconds: float) -> None:
        self.writer.close()
        try:
            async with asyncio.timeout(seconds):
                await self.writer.wait_closed()
        except TimeoutError:
            self.reset()
        except OSError:
            pass
        except BaseException:
            self.reset()
            raise

    def reset(self) -> None:
        self.writer.transport.abort()


class EndedTls:
    """The server's side of TLS on another connection; `read`: bytes that were already read."""

    def __init__(self, below: Duplex, context: ssl.SSLContext, read: bytes) -> None:
        self._below = below
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._in.write(read)
        self._tls = context.wrap_bio(self._in, self._out, server_side=True)

    async def handshake(self) -> None:
        """Do the TLS handshake. Raises OSError."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._more()
            except ssl.SSLError:
                with suppress(OSError):
                    await self._flush()  # sends the TLS alert
                raise
            else:
                return await self._flush()

    async def read(self) -> bytes:
        while True:
            try:
                return self._tls.read(_RECORD)
            except ssl.SSLWantReadError:
                await self._more()
            except ssl.SSLEOFError:
                return b""

    async def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self._tls.write(view) :]
        await self._flush()

    async def end(self) -> None:
        """Send the end of the TLS stream."""
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
    """HTTP/1.1 on one connection."""

    def __init__(
        self,
        stream: Duplex,
        http: h11.Connection,
        fault: Callable[[h11.RemoteProtocolError], GatewayError],
        gone: Callable[[OSError], Exception] = lambda error: error,
    ) -> None:
        """`fault` makes the error for invalid HTTP, `gone` the error for a broken connection."""
        self.stream = stream
        self.http = http
        self._fault = fault
        self.gone = gone
        self._in_a_row = 0

    async def event(self, meter: Meter) -> h11.Event:
        """Return the next event. Raises GatewayError (invalid HTTP, too many bytes), OSError, or `gone`."""
        self._in_a_row += 1
        if self._in_a_row == _IN_A_ROW:
            # 256 KB may contain tens of thousands of chunks, so other connections get a turn in between.
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
        """Give received bytes to the parser; empty at the end."""
        self._in_a_row = 0
        if self.http.our_role is h11.CLIENT:
            meter.add(came=len(data))
        else:
            meter.add(went=len(data))
        self.http.receive_data(data)

    async def left(self) -> None:
        """Wait until the other end has closed its direction. Call this after its request has come."""
        read = 0
        with suppress(OSError):
            while read < _MOST_LINGER and (data := await self.stream.read()):
                read += len(data)
                self.http.receive_data(data)

    async def send(self, *events: h11.Event) -> None:
        """Send events. Raises OSError, or `gone`."""
        pieces: list[bytes] = []
        for event in events:
            pieces += self.http.send_with_data_passthrough(event) or []
        if not pieces:
            return
        try:
            await self.stream.write(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        except OSError as error:
            raise self.gone(error) from None
