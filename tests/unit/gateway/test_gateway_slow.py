"""Slow, silent and vanished programs and hosts: each connection ends in time and delays no other."""

from __future__ import annotations

import asyncio
import contextlib
import time

import pytest

from libs.gateway.gateway_limits import ClientLimits, Timeouts
from libs.gateway.gateway_protocol import Client
from libs.gateway.gateway_streams import SocketStream
from libs.gateway.proxy import Proxy
from libs.gateway.rules.allow_list import Rules
from tests.servers.gateway_loopback import (
    QUICK,
    Names,
    nothing_left,
    reached,
    refused,
    running,
    serving,
    until,
)
from tests.servers.http_messages import body_of, last, ok, page, tunnel

# -- programs


@pytest.mark.parametrize(
    ("start", "trickle"),
    [
        (b"", b""),
        (b"GET http://site.test/ HTTP/1.1\r\nX-Slow: ", b""),
        (b"GET http://site.test/ HTTP/1.1\r\n", b"X-A: b\r\n"),
    ],
    ids=["nothing", "half", "a line now and then"],
)
async def test_slow_heads_are_given_up(start: bytes, trickle: bytes) -> None:
    async with running("site.test", timeouts=QUICK) as proxy:
        began = time.monotonic()
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        answering = asyncio.create_task(reader.read())
        writer.write(start)
        while not answering.done():
            writer.write(trickle)
            await asyncio.sleep(0.02)
        assert QUICK.head - 0.1 < time.monotonic() - began < 5
        refused(proxy, await answering, 408, "site.test: " if start else "", "0.3 s", "EGRESS_ALLOW")
        writer.close()


async def test_program_that_does_not_read_slows_the_host_down() -> None:
    written = 0

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        while True:
            writer.write(bytes(100_000))
            await writer.drain()
            written += 100_000

    async with reached(handler=pour, timeouts=QUICK) as (site, proxy):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port, limit=1000)
        writer.write(page(site.where))
        await reader.readuntil(b"\r\n\r\n")
        await until(lambda: proxy.log.entries)
        assert written < 30_000_000
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(10**9)
        writer.close()
    assert "no data for 0.3 s" in proxy.log.entries[0].reason


# -- hosts


async def test_silent_host_is_given_up() -> None:
    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with reached(handler=hold, timeouts=QUICK) as (site, proxy):
        answer = await proxy.ask(page(site.where))
    refused(proxy, answer, 504, "site.test is given up: no data for 0.3 s")


async def test_many_small_chunks_do_not_block_the_loop() -> None:
    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n0\r\n\r\n")
        writer.write(ok(b"done"))

    async with reached(handler=swallow) as (site, proxy):
        longest = 0.0

        async def watch() -> None:
            nonlocal longest
            while True:
                began = time.thread_time()
                await asyncio.sleep(0.001)
                longest = max(longest, time.thread_time() - began)

        watcher = asyncio.create_task(watch())
        upload = last(site.where, b"Transfer-Encoding: chunked", method="POST")
        answer = await proxy.ask(upload + b"1\r\nx\r\n" * 20_000 + b"0\r\n\r\n")
        watcher.cancel()
        await asyncio.gather(watcher, return_exceptions=True)
    assert body_of(answer) == b"done"
    assert longest < 0.5


# -- the end of the gateway


async def test_cancelling_closes_everything() -> None:
    """Also a connection that still sends after an early answer."""

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with nothing_left(), serving(hold) as site:
        resolve = Names(site_test=["127.0.0.1"]).resolve
        proxy = Proxy(rules=Rules.parse([site.where]), resolve=resolve, timeouts=Timeouts())  # type: ignore[arg-type]
        client = Client("box-1", "", ClientLimits())
        tasks: list[asyncio.Task[None]] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            tasks.append(asyncio.current_task())  # type: ignore[arg-type]
            try:
                await proxy.serve(SocketStream(reader, writer), client)
            except asyncio.CancelledError:
                assert writer.is_closing()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        held = []
        upload = page(site.where, b"Content-Length: 100", method="POST") + b"ab"
        early = page("other.test", b"Content-Length: 100", method="POST")
        for start in (b"", page(site.where), upload, tunnel(site.where), early):
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(start)
            held.append((reader, writer))
        await until(lambda: len(tasks) == 5 and site.connections == 3)
        began = time.monotonic()
        for task in tasks:
            task.cancel()
        for reader, writer in held:
            with contextlib.suppress(ConnectionResetError):
                await asyncio.wait_for(reader.read(), 20)
            writer.close()
        assert time.monotonic() - began < 20
        assert client.limits.open == 0
        server.close()
        await server.wait_closed()
