"""Forwarded http requests and answers: bodies, lengths, and connections that break off."""

from __future__ import annotations

import asyncio

import pytest

from tests.servers.gateway_loopback import reached, refused, to_the_end
from tests.servers.http_messages import body_of, headers_of, last, ok, page, status_of


def post(where: str, *headers: bytes) -> bytes:
    return page(where, *headers, method="POST")


# -- bodies


async def test_bodies_of_every_length_both_ways() -> None:
    async with reached(lambda request: ok(body_of(request))) as (site, proxy):
        for size in (0, 1, 65_536, 3_000_001):
            body = bytes(range(256)) * (size // 256) + bytes(size % 256)
            answer = await proxy.ask(last(site.where, b"Content-Length: %d" % size, method="POST") + body)
            assert body_of(answer) == body
    assert proxy.log.entries[-1].bytes_out == 3_000_001
    assert proxy.log.entries[-1].bytes_in > 3_000_001


async def test_chunks_both_ways() -> None:
    chunked = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3\r\n wo\r\n0\r\nT: 1\r\n\r\n"
    )
    async with reached(chunked) as (site, proxy):
        upload = last(site.where, b"Transfer-Encoding: Chunked", method="POST")
        answer = await proxy.ask(upload + b"3\r\nabc\r\n0\r\n\r\n")
        old = await proxy.ask(page(site.where, version="1.0"))
    assert headers_of(answer)["transfer-encoding"] == "chunked"
    assert body_of(answer).replace(b"\r\n", b"") == b"5hello3 wo0"
    assert site.requests[0].endswith(b"\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
    assert body_of(old) == b"hello wo"  # HTTP/1.0 has no chunks: the end is the end
    assert "transfer-encoding" not in headers_of(old)


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\n\r\n"),
        ("GET", b"HTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n"),
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 50000000000\r\n\r\n"),
    ],
)
async def test_answers_without_a_body(method: str, answer: bytes) -> None:
    async with reached(answer) as (site, proxy):
        got = await proxy.ask(page(site.where, method=method) + last(site.where, method=method))
    assert got.count(b"HTTP/1.1 ") == 2
    assert body_of(got).startswith(b"HTTP/1.1")
    assert b"ransfer-" not in got
    assert headers_of(got).get("content-length") == headers_of(answer).get("content-length")


# -- connections


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with reached(lambda request: ok(request.split(b" ")[1])) as (site, proxy):
        ahead = b"".join(page(site.where, path=f"/{number}") for number in range(20))
        answer = await proxy.ask(ahead + last(site.where, path="/end"))
    assert [body_of(part) for part in answer.split(b"HTTP/1.1 ")[1:]] == [
        *(b"/%d" % number for number in range(20)),
        b"/end",
    ]
    assert "connection" not in headers_of(answer)
    assert site.connections == 21
    assert {headers_of(request)["connection"] for request in site.requests} == {"close"}


async def test_100_continue_is_passed_on() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert headers_of(head)["expect"] == "100-continue"
        writer.write(b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 100 Continue\r\nX-A: b\r\n\r\n")
        writer.write(ok(await reader.readexactly(3)))

    async with reached(handler=handle) as (site, proxy):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(post(site.where, b"Content-Length: 3", b"Expect: 100-continue"))
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"abc")
        assert status_of(await reader.readuntil(b"\r\n\r\n")) == 200
        assert await reader.readexactly(3) == b"abc"
        writer.close()


async def test_host_answers_before_the_body_is_sent() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 417 No\r\nContent-Length: 2\r\n\r\nno")
        await writer.drain()
        writer.write_eof()
        await asyncio.sleep(0.2)

    async with reached(handler=refuse) as (site, proxy):
        answer = await proxy.ask(post(site.where, b"Content-Length: 50000000", b"Expect: 100-continue"))
        assert status_of(answer) == 417
        assert headers_of(answer)["connection"] == "close"
        # A program that sends the whole body nevertheless gets the answer, too.
        answer = await proxy.ask(post(site.where, b"Content-Length: 3000000") + bytes(3_000_000))
        assert status_of(answer) == 417


# -- invalid and incomplete answers


BAD_ANSWERS = {
    "SSH": b"SSH-2.0-x\r\n",
    "NUL": b"HTTP/1.1 200 OK\r\nX-A: \x00\r\n\r\n",
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: ws\r\nConnection: Upgrade\r\n\r\nabc",
    "endless head": b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 20_000,
}


@pytest.mark.parametrize("bad", BAD_ANSWERS.values(), ids=BAD_ANSWERS.keys())
async def test_invalid_answers_become_502(bad: bytes) -> None:
    async with reached(bad) as (site, proxy):
        answer = await proxy.ask(last(site.where))
    refused(proxy, answer, 502, "site.test")
    assert answer.count(b"HTTP/1.1 ") == 1


async def test_second_answer_on_a_connection_is_dropped() -> None:
    async with reached(ok(b"hello") + ok(b"evil")) as (site, proxy):
        answer = await proxy.ask(page(site.where) + last(site.where))
    assert answer.count(b"hello") == 2
    assert b"evil" not in answer


@pytest.mark.parametrize("abort", [True, False])
async def test_host_that_breaks_off(abort: bool) -> None:
    """A partial answer must not look complete; without an answer the program gets a 502."""

    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if b"/half" in await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel")
            await writer.drain()
        if abort:
            writer.transport.abort()

    async with reached(handler=half) as (site, proxy):
        refused(proxy, await proxy.ask(page(site.where)), 502, "site.test breaks off the connection")
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(page(site.where, path="/half"))
        assert not (await to_the_end(reader)).endswith(b"0\r\n\r\n")
        writer.close()
    assert proxy.log.entries[1].reason.startswith("site.test ")


async def test_request_ends_when_the_program_hangs_up() -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        began.set()
        assert await reader.read() == b""
        ended.set()

    async with reached(handler=wait) as (site, proxy):
        _, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(page(site.where))
        await asyncio.wait_for(began.wait(), 5)
        writer.close()
        await asyncio.wait_for(ended.wait(), 5)
