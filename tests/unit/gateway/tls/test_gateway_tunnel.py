"""Bytes through a tunnel in both directions, the end of a tunnel, and its limits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from libs.gateway.gateway_limits import EgressLimits, Timeouts
from tests.servers.gateway_loopback import Handler, Running, reached, to_the_end
from tests.unit.gateway.tls.test_gateway_client_hello import real_hello

HELLO = real_hello("site.test")


@asynccontextmanager
async def tunnelled(
    handler: Handler, *, limits: EgressLimits | None = None, timeouts: Timeouts | None = None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter, Running]]:
    """Open a tunnel to a handler and send a ClientHello; the gateway does not check later bytes."""
    timeouts = timeouts or Timeouts(head=2, idle=30, linger=1)
    async with reached(handler=handler, limits=limits, timeouts=timeouts) as (site, proxy):
        _, reader, writer = await proxy.connect(site.where)
        for at in range(0, len(HELLO), 50):  # TLS clients may cut a message anywhere
            writer.write(HELLO[at : at + 50])
            await asyncio.sleep(0)
        try:
            yield reader, writer, proxy
        finally:
            writer.close()


async def back(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send every byte back."""
    while data := await reader.read(50_000):
        writer.write(data)
        await writer.drain()


async def drip(writer: asyncio.StreamWriter, seconds: float) -> None:
    """Send a byte now and then."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        writer.write(b"x")
        await asyncio.sleep(0.02)


async def test_both_directions_at_once() -> None:
    async with tunnelled(back) as (reader, writer, proxy):
        piece = bytes(range(251)) * 1000

        async def send() -> None:
            for _ in range(80):
                writer.write(piece)
                await writer.drain()
            writer.write_eof()

        sender = asyncio.create_task(send())
        assert await to_the_end(reader) == HELLO + piece * 80
        await sender
    entry = proxy.log.entries[0]
    assert entry.bytes_in == entry.bytes_out == len(piece) * 80 + len(HELLO)


async def test_either_side_may_end_first() -> None:
    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.read()
        writer.write(b"answer to " + asked[-3:])

    async with tunnelled(late) as (reader, writer, _):
        writer.write(b"abc")
        writer.write_eof()
        assert await to_the_end(reader) == b"answer to abc"

    heard = asyncio.get_running_loop().create_future()

    async def early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"first")
        writer.write_eof()
        heard.set_result(await reader.read())

    async with tunnelled(early) as (reader, writer, _):
        assert await to_the_end(reader) == b"first"
        writer.write(b"still here")
        writer.write_eof()
        assert (await asyncio.wait_for(heard, 5)).endswith(b"still here")


async def test_either_side_sees_that_the_other_breaks_off() -> None:
    ended = asyncio.Event()

    async def breaks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(HELLO))
        writer.transport.abort()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await back(reader, writer)
        finally:
            ended.set()

    async with tunnelled(breaks) as (reader, _, _):
        assert await asyncio.wait_for(to_the_end(reader), 5) == b""
    async with tunnelled(wait) as (reader, writer, _):
        await reader.readexactly(len(HELLO))
        writer.transport.abort()
        await asyncio.wait_for(ended.wait(), 5)


async def test_end_that_does_not_read_stops_the_other() -> None:
    go_on = asyncio.Event()
    read = 0

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal read
        await go_on.wait()
        while data := await reader.read(2**20):
            read += len(data)

    async def fill(writer: asyncio.StreamWriter) -> int:
        sent = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(0.3):
                while True:
                    writer.write(bytes(100_000))
                    sent += 100_000
                    await writer.drain()
        assert sent < 30_000_000
        return sent

    async with tunnelled(hold) as (reader, writer, _):
        sent = await fill(writer)
        go_on.set()
        writer.write_eof()
        assert await to_the_end(reader) == b""
    assert read == sent + len(HELLO)

    written = asyncio.get_running_loop().create_future()

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(HELLO))
        written.set_result(await fill(writer))

    async with tunnelled(pour) as (reader, writer, _):
        sent = await written
        assert len(await to_the_end(reader)) == sent


# -- limits


async def test_silent_tunnel_is_closed_after_the_idle_time() -> None:
    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with tunnelled(hold, timeouts=Timeouts(idle=0.5)) as (reader, writer, proxy):
        began = time.monotonic()
        await drip(writer, 0.8)  # activity keeps the tunnel open
        assert await to_the_end(reader) == b""
        assert 1.2 < time.monotonic() - began < 5
    assert proxy.log.entries[0].reason == "site.test is cut off: no data for 0.5 s"


async def test_tunnel_ends_after_egress_seconds() -> None:
    began = time.monotonic()
    async with tunnelled(back, limits=EgressLimits(seconds=0.5)) as (reader, writer, proxy):
        dripping = asyncio.create_task(drip(writer, 5))
        await to_the_end(reader)
        assert 0.3 < time.monotonic() - began < 5
        dripping.cancel()
        await asyncio.gather(dripping, return_exceptions=True)
    assert proxy.log.entries[0].reason == "site.test is cut off after 0.5 s: EGRESS_SECONDS allows no more"


@pytest.mark.parametrize("up", [True, False])
async def test_tunnel_ends_after_egress_max_bytes(up: bool) -> None:
    seen = 0

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        while data := await reader.read(2**20):
            seen += len(data)

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(bytes(100_000))
            await writer.drain()

    limits = EgressLimits(max_bytes=1_000_000)
    async with tunnelled(take if up else pour, limits=limits) as (reader, writer, proxy):
        with suppress(ConnectionError):
            await pour(reader, writer) if up else None
        assert len(await to_the_end(reader)) <= 1_000_000
    assert seen <= 1_000_000
    assert "EGRESS_MAX_BYTES" in proxy.log.entries[0].reason
