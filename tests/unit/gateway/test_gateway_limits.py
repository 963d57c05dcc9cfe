"""Limits of one sandbox: requests a minute, connections, bytes, seconds, and the size of a head."""

from __future__ import annotations

import asyncio
import time

import pytest

from libs.gateway.gateway_errors import GatewayError
from libs.gateway.gateway_limits import ClientLimits, EgressLimits
from tests.servers.gateway_loopback import reached, refused, to_the_end, until
from tests.servers.http_messages import last, ok, page, status_of, tunnel


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_rate_limit_counts_the_last_minute() -> None:
    clock = Clock()
    limits = ClientLimits(EgressLimits(rate=3), clock=clock)
    for _ in range(3):
        limits.admit("example.com")
        clock.now += 10
    with pytest.raises(GatewayError, match=r"refused for 30 s: EGRESS_RATE allows 3 requests") as first:
        limits.admit("example.com")
    assert not first.value.repeated
    for _ in range(100):  # what is refused does not count
        with pytest.raises(GatewayError) as second:
            limits.admit("example.com")
    assert second.value.repeated
    clock.now += 30
    limits.admit("example.com")
    with pytest.raises(GatewayError):
        limits.admit("example.com")


# -- in the proxy


async def test_requests_a_minute() -> None:
    async with reached(limits=EgressLimits(rate=3)) as (site, proxy):
        assert [status_of(await proxy.ask(last(site.where))) for _ in range(3)] == [200] * 3
        refused(
            proxy, await proxy.ask(last(site.where)), 429, "site.test is refused for", "EGRESS_RATE allows 3"
        )
        for request in (tunnel("evil.test:443"), b"nonsense\r\n\r\n"):
            answer = await proxy.ask(request)
            assert status_of(answer) == 429
            assert b"EGRESS_RATE" in answer
    # A program that goes on asking does not fill the log, either.
    assert [entry.status for entry in proxy.log.entries] == [200, 200, 200, 429]


async def test_connections_at_once_are_limited() -> None:
    async with reached(limits=EgressLimits(connections=2)) as (site, proxy):
        held = [await asyncio.open_connection("127.0.0.1", proxy.port) for _ in range(2)]
        await until(lambda: proxy.client.limits.open == 2)
        refused(proxy, await proxy.ask(last(site.where)), 429, "2 connections")
        for _, writer in held:
            writer.close()
        await until(lambda: proxy.client.limits.open == 0)
        assert status_of(await proxy.ask(last(site.where))) == 200


async def test_endless_bodies() -> None:
    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if b"POST" in head:
            await reader.read()
        writer.write(ok(bytes(100_001)) if b"/known" in head else b"HTTP/1.1 200 OK\r\n\r\n" + bytes(400_000))
        await writer.drain()

    chunks = b"Transfer-Encoding: chunked", (b"%x\r\n" % 60_000 + bytes(60_000) + b"\r\n") * 3
    async with reached(limits=EgressLimits(max_bytes=100_000), handler=pour) as (site, proxy):
        for header, body in ((b"Content-Length: 100001", bytes(100_001)), chunks):
            answer = await proxy.ask(page(site.where, header, method="POST") + body)
            refused(
                proxy, answer, 413, "site.test has more than the 100,000 bytes that EGRESS_MAX_BYTES allows"
            )
        # Answers with and without a Content-Length.
        refused(proxy, await proxy.ask(last(site.where, path="/known")), 413, "site.test", "EGRESS_MAX_BYTES")
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(page(site.where))
        assert not (await to_the_end(reader)).endswith(b"0\r\n\r\n")
        writer.close()
    assert "EGRESS_MAX_BYTES" in proxy.log.entries[-1].reason


async def test_slow_bodies() -> None:
    """Sending a byte now and then does not extend EGRESS_SECONDS."""

    async def drip(writer: asyncio.StreamWriter) -> None:
        for _ in range(200):
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.02)

    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if b"POST" in await reader.readuntil(b"\r\n\r\n"):
            await reader.read()
        else:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            await drip(writer)

    async with reached(limits=EgressLimits(seconds=0.3), handler=trickle) as (site, proxy):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(page(site.where, b"Content-Length: 1000", method="POST"))
        dripping = asyncio.create_task(drip(writer))
        refused(proxy, await asyncio.wait_for(reader.read(), 5), 504, "site.test", "EGRESS_SECONDS")
        dripping.cancel()
        await asyncio.gather(dripping, return_exceptions=True)
        writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(page(site.where))
        began = time.monotonic()
        assert len(await to_the_end(reader)) < 1000
        assert time.monotonic() - began < 5
        writer.close()
    assert "EGRESS_SECONDS" in proxy.log.entries[1].reason
