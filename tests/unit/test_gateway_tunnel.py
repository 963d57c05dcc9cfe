"""Bytes through a tunnel: untouched, in any amount, both ways; and its end, whoever brings it about."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from libs.gateway.limits import EgressLimits, Timeouts
from tests.unit.gateway_loopback import Names, Running, running, serving
from tests.unit.test_gateway_client_hello import real_hello

HELLO = real_hello("site.test")

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def tunnelled(
    handler: Handler, *, limits: EgressLimits | None = None, timeouts: Timeouts | None = None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter, Running]]:
    """A tunnel to a handler, which is sent a ClientHello, and then anything: nobody looks at it any more."""
    async with (
        serving(handler) as site,
        running(
            f"site.test:{site.port}",
            names=Names(site_test=["127.0.0.1"]),
            limits=limits,
            timeouts=timeouts or Timeouts(head=2, idle=30, linger=1),
        ) as proxy,
    ):
        _, reader, writer = await proxy.connect(f"site.test:{site.port}")
        writer.write(HELLO)
        try:
            yield reader, writer, proxy
        finally:
            writer.close()


async def ended(reader: asyncio.StreamReader) -> bytes:
    """What comes until the end, however it ends."""
    read = b""
    try:
        async with asyncio.timeout(10):
            while data := await reader.read(2**20):
                read += data
    except ConnectionResetError:
        pass
    return read


async def test_a_hundred_megabytes_down() -> None:
    piece = bytes(range(256)) * 4096

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(HELLO))
        for _ in range(100):
            writer.write(piece)
            await writer.drain()

    async with tunnelled(pour) as (reader, _, proxy):
        digest, size = hashlib.sha256(), 0
        while data := await reader.read(2**20):
            digest.update(data)
            size += len(data)
    assert size == 100 * len(piece)
    assert digest.digest() == hashlib.sha256(piece * 100).digest()
    assert proxy.log.entries[0].bytes_in == size


async def test_up_and_down_at_once() -> None:
    async def back(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(len(HELLO)) == HELLO
        while data := await reader.read(50_000):
            writer.write(data)
            await writer.drain()

    async with tunnelled(back) as (reader, writer, proxy):
        piece = bytes(range(251)) * 1000

        async def send() -> None:
            for _ in range(80):
                writer.write(piece)
                await writer.drain()
            writer.write_eof()

        sender = asyncio.create_task(send())
        assert await ended(reader) == piece * 80
        await sender
    entry = proxy.log.entries[0]
    assert (entry.bytes_in, entry.bytes_out) == (len(piece) * 80, len(piece) * 80 + len(HELLO))


async def test_either_side_may_have_said_all_first() -> None:
    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.read()
        writer.write(b"answer to " + asked[-3:])

    async with tunnelled(late) as (reader, writer, _):
        writer.write(b"abc")
        writer.write_eof()
        assert await ended(reader) == b"answer to abc"

    heard = asyncio.get_running_loop().create_future()

    async def early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"first")
        writer.write_eof()
        heard.set_result(await reader.read())

    async with tunnelled(early) as (reader, writer, _):
        assert await ended(reader) == b"first"
        writer.write(b"still here")
        writer.write_eof()
        assert (await asyncio.wait_for(heard, 5)).endswith(b"still here")


async def test_a_host_that_speaks_first_is_heard_after_the_hello() -> None:
    async def first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"too early")
        await reader.readexactly(len(HELLO))

    async with tunnelled(first) as (reader, writer, _):
        assert await reader.readexactly(9) == b"too early"
        writer.write_eof()
        assert await ended(reader) == b""


async def test_a_host_that_is_gone_before_the_hello() -> None:
    async def gone(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async with tunnelled(gone) as (reader, _, _):
        assert await ended(reader) == b""


@pytest.mark.parametrize("after", [0, 100_000])
async def test_a_host_that_breaks_off_is_heard_to(after: int) -> None:
    async def breaks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(HELLO))
        writer.write(bytes(after))
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.transport.abort()

    async with tunnelled(breaks) as (reader, _, _):
        began = time.monotonic()
        assert len(await ended(reader)) <= after
        assert time.monotonic() - began < 5


async def test_a_program_that_breaks_off_is_heard_of_outside() -> None:
    ended_outside = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readexactly(len(HELLO))
            while await reader.read(1000):
                pass
        finally:
            ended_outside.set()

    async with tunnelled(wait) as (_reader, writer, _):
        await asyncio.sleep(0.05)
        writer.transport.abort()
        await asyncio.wait_for(ended_outside.wait(), 5)


async def test_a_program_that_is_gone_while_much_comes() -> None:
    stopped = asyncio.Event()

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(HELLO))
        try:
            while True:
                writer.write(bytes(100_000))
                await writer.drain()
        finally:
            stopped.set()

    async with tunnelled(pour) as (reader, writer, _):
        await reader.read(1000)
        writer.transport.abort()
        await asyncio.wait_for(stopped.wait(), 5)


async def test_a_program_that_does_not_read_holds_up_the_host() -> None:
    written = 0

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        await reader.readexactly(len(HELLO))
        while written < 200_000_000:
            writer.write(bytes(100_000))
            await writer.drain()
            written += 100_000

    async with tunnelled(pour) as (reader, _writer, _proxy):
        await asyncio.sleep(0.3)
        before = written
        await asyncio.sleep(0.2)
        assert written == before < 30_000_000
        size = 0
        while data := await reader.read(2**20):
            size += len(data)
        assert size == 200_000_000


async def test_a_host_that_does_not_read_holds_up_the_program() -> None:
    go_on = asyncio.Event()
    read = 0

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal read
        await go_on.wait()
        while data := await reader.read(2**20):
            read += len(data)

    async with tunnelled(hold) as (reader, writer, _):
        sent = 0
        try:
            async with asyncio.timeout(0.3):
                while True:
                    writer.write(bytes(100_000))
                    sent += 100_000
                    await writer.drain()
        except TimeoutError:
            pass
        assert sent < 30_000_000
        go_on.set()
        writer.write_eof()
        assert await ended(reader) == b""
    assert read == sent + len(HELLO)


async def test_a_host_that_reads_late_gets_it_all() -> None:
    got = asyncio.get_running_loop().create_future()

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write_eof()
        await asyncio.sleep(1.5)
        size = 0
        while data := await reader.read(2**20):
            size += len(data)
        got.set_result(size)

    async with tunnelled(late) as (reader, writer, _):
        writer.write(bytes(20_000_000))
        writer.write_eof()
        assert await ended(reader) == b""
        assert await asyncio.wait_for(got, 8) == 20_000_000 + len(HELLO)


async def test_silence_has_an_end() -> None:
    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with tunnelled(hold, timeouts=Timeouts(idle=0.4)) as (reader, writer, proxy):
        began = time.monotonic()
        for _ in range(4):
            await asyncio.sleep(0.2)
            writer.write(b"x")  # as long as something moves, it lasts
        assert await ended(reader) == b""
        assert 1 < time.monotonic() - began < 5
    assert proxy.log.entries[0].reason == "site.test is cut off: nothing has moved for 0.4 s"


async def test_every_tunnel_has_an_end() -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.02)

    async with tunnelled(drip, limits=EgressLimits(seconds=0.5)) as (reader, _, proxy):
        began = time.monotonic()
        await ended(reader)
        assert 0.3 < time.monotonic() - began < 5
    assert proxy.log.entries[0].reason == "site.test is cut off after 0.5 s: EGRESS_SECONDS allows no more"


@pytest.mark.parametrize("up", [True, False])
async def test_too_many_bytes(up: bool) -> None:
    seen = 0

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        while up and (data := await reader.read(2**20)):
            seen += len(data)
        while not up:
            writer.write(bytes(100_000))
            await writer.drain()

    async with tunnelled(pour, limits=EgressLimits(max_bytes=1_000_000)) as (reader, writer, proxy):
        try:
            while up:
                writer.write(bytes(100_000))
                await writer.drain()
        except ConnectionError:
            pass
        assert len(await ended(reader)) <= 1_000_000
    assert seen <= 1_000_000
    assert "EGRESS_MAX_BYTES" in proxy.log.entries[0].reason


async def test_a_hundred_tunnels_at_once() -> None:
    async def back(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(2**16):
            writer.write(data)
            await writer.drain()

    async with (
        serving(back) as site,
        running(f"site.test:{site.port}", names=Names(site_test=["127.0.0.1"]), timeouts=Timeouts()) as proxy,
    ):

        async def one(number: int) -> None:
            _, reader, writer = await proxy.connect(f"site.test:{site.port}")
            sent = HELLO + number.to_bytes(4, "big") * 25_000
            writer.write(sent)
            assert await reader.readexactly(len(sent)) == sent
            writer.close()

        began = time.monotonic()
        await asyncio.gather(*map(one, range(100)))
        assert time.monotonic() - began < 20
        # A host that is dead holds up none of the others.
        assert proxy.client.limits.open <= 100


async def test_tls_all_the_way_is_as_strict_as_ever() -> None:
    """The certificate of the host is seen by the program, which alone decides on it."""
    from tests.unit.gateway_loopback import server_tls, web_site

    async with (
        web_site(tls=server_tls("other.test")) as site,
        running(f"site.test:{site.port}", names=Names(site_test=["127.0.0.1"])) as proxy,
    ):
        _, _, writer = await proxy.connect(f"site.test:{site.port}")
        with pytest.raises(ssl.SSLCertVerificationError):
            await writer.start_tls(ssl.create_default_context(), server_hostname="site.test")
        writer.close()
