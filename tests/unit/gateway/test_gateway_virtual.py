"""Virtual hosts: services of the gateway that answer under their own name, whole or in pieces."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import pytest

from libs.gateway.gateway_errors import GatewayError
from libs.gateway.gateway_limits import EgressLimits, Timeouts
from libs.gateway.gateway_protocol import Body, ProgramLeft, ServiceRequest, ServiceResponse
from tests.servers.gateway_loopback import Running, refused, running, to_the_end
from tests.servers.http_messages import body_of, headers_of, last, page, status_of, tunnel
from tests.support.waiting import eventually

FILES = "files.gateway"
PIECE = b"x" * 1000
GIVEN_UP = "files.gateway is given up: no data for 0.3 s"


async def echo(request: ServiceRequest) -> ServiceResponse:
    said = f"{request.client.sandbox} {request.method} {request.path}?{request.query} {len(request.body)}"
    return ServiceResponse(200, said.encode(), [(b"Content-Type", b"text/plain"), (b"Content-Length", b"7")])


async def test_virtual_host_needs_no_rule_and_no_lookup() -> None:
    async with running(services={FILES: echo}) as proxy:
        upload = last(FILES, b"Content-Length: 3", method="POST", path="") + b"abc"
        answers = (await proxy.ask(page(FILES, path="/find?q=%41") + upload)).split(b"HTTP/1.1 ")[1:]
    assert [body_of(answer) for answer in answers] == [b"box-1 GET /find?q=%41 0", b"box-1 POST /? 3"]
    assert headers_of(answers[1])["content-length"] == "15"
    assert proxy.names.asked == []
    assert [entry.status for entry in proxy.log.entries] == [200, 200]


@pytest.mark.parametrize(
    "request_bytes", [tunnel(f"{FILES}:443"), tunnel(f"{FILES}:80"), page(f"{FILES}:81")]
)
async def test_virtual_host_is_reached_only_by_http_on_port_80(request_bytes: bytes) -> None:
    async with running("*.gateway.test", services={FILES: echo}) as proxy:
        refused(proxy, await proxy.ask(request_bytes), 403, "http://files.gateway")


async def test_virtual_host_takes_at_most_1_mib() -> None:
    async with running(services={FILES: echo}) as proxy:
        for size, status in ((2**20, 200), (2**20 + 1, 413)):
            request = last(FILES, b"Content-Length: %d" % size, method="POST")
            answer = await proxy.ask(request + bytes(size))
            assert status_of(answer) == status
    refused(proxy, answer, 413, FILES, "1,048,576")


async def test_errors_of_a_virtual_host() -> None:
    async def refuses(request: ServiceRequest) -> ServiceResponse:
        raise GatewayError(405, "a.gateway takes nothing")

    async def fails(request: ServiceRequest) -> ServiceResponse:
        raise ZeroDivisionError("nobody's business")

    async def slow(request: ServiceRequest) -> ServiceResponse:
        await asyncio.sleep(60)
        raise AssertionError

    services = {"a.gateway": refuses, "b.gateway": fails, "c.gateway": slow}
    async with running(services=services, limits=EgressLimits(seconds=0.2)) as proxy:
        refused(proxy, await proxy.ask(last("a.gateway")), 405, "a.gateway takes nothing")
        answer = await proxy.ask(last("b.gateway"))
        refused(proxy, answer, 500, "b.gateway failed")
        assert b"business" not in answer
        refused(proxy, await proxy.ask(last("c.gateway")), 504, "EGRESS_SECONDS")
    assert [entry.decision for entry in proxy.log.entries] == ["refused", "allowed", "allowed"]


async def test_service_whose_program_has_left_has_not_failed(caplog: pytest.LogCaptureFixture) -> None:
    async def service(request: ServiceRequest) -> ServiceResponse:
        await request.left()
        raise ProgramLeft("the program has ended")

    async with running(services={FILES: service}) as proxy:
        _, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(last(FILES))
        writer.close()
        await asyncio.to_thread(eventually, lambda: bool(proxy.log.entries))
    assert [entry.reason for entry in proxy.log.entries] == ["the connection was broken off"]
    assert not caplog.records


# -- piece by piece


class Pieces:
    """A body of four pieces that records how far it was read."""

    def __init__(self, *, fails: Exception | None = None, pause: float = 0, piece: bytes = PIECE) -> None:
        self.closed = asyncio.Event()
        self.read = 0
        self._fails = fails
        self._pause = pause
        self._piece = piece

    async def pieces(self) -> AsyncIterator[bytes]:
        for _ in range(4):
            self.read += 1
            yield self._piece
            await asyncio.sleep(self._pause)
            if self._fails:
                raise self._fails

    async def close(self) -> None:
        self.closed.set()


def serving(
    body: Pieces, length: int | None = None, *, idle: float = 300, limits: EgressLimits | None = None
) -> AbstractAsyncContextManager[Running]:
    async def service(request: ServiceRequest) -> ServiceResponse:
        return ServiceResponse(200, Body(body.pieces(), length, body.close), reason="a remark")

    timeouts = Timeouts(idle=idle, linger=0.2)
    return running(services={FILES: service}, limits=limits, timeouts=timeouts)


async def answered(proxy: Running) -> bytes:
    """Read the answer, complete or not."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(last(FILES))
    try:
        return await to_the_end(reader)
    finally:
        writer.close()


@pytest.mark.parametrize("length", [4000, None])
async def test_body_in_pieces_arrives_complete(length: int | None) -> None:
    body = Pieces()
    async with serving(body, length) as proxy:
        answer = await proxy.ask(last(FILES))
    assert body_of(answer) == (PIECE * 4 if length else (b"3e8\r\n" + PIECE + b"\r\n") * 4 + b"0\r\n\r\n")
    assert headers_of(answer).get("content-length") == (str(length) if length else None)
    assert body.closed.is_set()
    (line,) = proxy.log.entries
    assert (line.status, line.bytes_in, line.decision, line.reason) == (200, 4000, "allowed", "a remark")


async def test_head_request_reads_no_body() -> None:
    body = Pieces()
    async with serving(body, 4000) as proxy:
        answer = await proxy.ask(last(FILES, method="HEAD"))
    assert (headers_of(answer)["content-length"], body_of(answer), body.read) == ("4000", b"", 0)
    assert body.closed.is_set()


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (GatewayError(502, "the rest is gone"), "the rest is gone"),
        (ZeroDivisionError(), "the gateway failed: the log of the application says why"),
    ],
)
async def test_failed_body_is_logged(fault: Exception, reason: str) -> None:
    body = Pieces(fails=fault)
    async with serving(body) as proxy:
        answer = await answered(proxy)
    assert not answer.endswith(b"0\r\n\r\n")
    assert body.closed.is_set()
    (line,) = proxy.log.entries
    assert (line.status, line.reason) == (200, reason)


async def test_stalled_body_is_given_up() -> None:
    """The service, the program that does not read, and the program that does not send."""
    body = Pieces(pause=30)
    began = time.monotonic()
    async with serving(body, idle=0.3) as proxy:
        assert not (await answered(proxy)).endswith(b"0\r\n\r\n")
    assert time.monotonic() - began < 10
    assert (body.closed.is_set(), proxy.log.entries[0].reason) == (True, GIVEN_UP)

    flood = Pieces(piece=bytes(30_000_000))
    async with serving(flood, idle=0.3) as proxy:
        _, writer = await asyncio.open_connection("127.0.0.1", proxy.port, limit=1000)
        writer.write(page(FILES))
        await asyncio.wait_for(flood.closed.wait(), 10)
        writer.close()
    assert proxy.log.entries[0].reason == GIVEN_UP

    async with serving(Pieces(), idle=0.3) as proxy:
        refused(proxy, await proxy.ask(page(FILES, b"Content-Length: 100", method="POST")), 504, GIVEN_UP)


async def test_body_over_the_byte_limit_is_refused_or_cut() -> None:
    known, unknown = Pieces(), Pieces()
    async with serving(known, 4000, limits=EgressLimits(max_bytes=3999)) as proxy:
        refused(proxy, await proxy.ask(last(FILES)), 413, "EGRESS_MAX_BYTES")
    async with serving(unknown, limits=EgressLimits(max_bytes=2500)) as proxy:
        assert not (await answered(proxy)).endswith(b"0\r\n\r\n")
    assert (known.read, known.closed.is_set(), unknown.read, unknown.closed.is_set()) == (0, True, 3, True)
