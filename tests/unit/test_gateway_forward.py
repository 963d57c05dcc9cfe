"""Requests over http, and over https where TLS is ended: bodies, lengths, and whoever misbehaves."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import Iterable
from functools import cache

import h11
import pytest
import trustme

from libs.gateway.errors import GatewayError
from libs.gateway.limits import EgressLimits, Timeouts
from libs.gateway.protocol import Event, Headers
from tests.unit.gateway_loopback import (
    CLOSE,
    QUICK,
    Names,
    Running,
    body_of,
    client_tls,
    headers_of,
    ok,
    read_message,
    running,
    server_tls,
    serving,
    status_of,
    web_site,
)

NAMES = {"site_test": ["127.0.0.1"]}


def get(port: int, path: str = "/", version: str = "1.1") -> bytes:
    return f"GET http://site.test:{port}{path} HTTP/{version}\r\nHost: x\r\n".encode()


def post(port: int, *headers: bytes) -> bytes:
    return b"\r\n".join([b"POST http://site.test:%d/ HTTP/1.1" % port, b"Host: x", *headers, b"", b""])


async def test_bodies_of_every_length_both_ways() -> None:
    def back(request: bytes) -> bytes:
        return ok(body_of(request))

    async with web_site(back) as site, running(f"site.test:{site.port}", names=Names(**NAMES)) as proxy:
        for size in (0, 1, 65_535, 65_536, 300_000, 3_000_001):
            body = bytes(range(256)) * (size // 256) + bytes(size % 256)
            answer = await proxy.ask(
                post(site.port, b"Content-Length: %d" % size, b"Connection: close") + body
            )
            assert body_of(answer) == body
    assert proxy.log.entries[-1].bytes_out == 3_000_001
    assert proxy.log.entries[-1].bytes_in > 3_000_001


async def test_chunks_both_ways() -> None:
    chunked = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3\r\n wo\r\n0\r\nT: 1\r\n\r\n"
    )
    async with web_site(chunked) as site, running(f"site.test:{site.port}", names=Names(**NAMES)) as proxy:
        answer = await proxy.ask(
            post(site.port, b"Transfer-Encoding: Chunked", b"Connection: close") + b"3\r\nabc\r\n0\r\n\r\n"
        )
        old = await proxy.ask(get(site.port, version="1.0") + b"\r\n")
    assert headers_of(answer)["transfer-encoding"] == "chunked"
    assert body_of(answer).replace(b"\r\n", b"") == b"5hello3 wo0"
    assert site.requests[0].endswith(b"\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
    assert body_of(old) == b"hello wo"  # HTTP/1.0 has no chunks: the end is the end
    assert "transfer-encoding" not in headers_of(old)


async def test_an_answer_that_ends_with_its_connection() -> None:
    async with (
        web_site(b"HTTP/1.0 200 OK\r\n\r\nhello") as site,
        running(f"site.test:{site.port}", names=Names(**NAMES)) as proxy,
    ):
        answer = await proxy.ask(get(site.port) + CLOSE)
    assert body_of(answer) == b"5\r\nhello\r\n0\r\n\r\n"


@pytest.mark.parametrize("method", [b"HEAD", b"GET"])
@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n",
    ],
)
async def test_answers_without_a_body(method: bytes, answer: bytes) -> None:
    async with web_site(answer) as site, running(f"site.test:{site.port}", names=Names(**NAMES)) as proxy:
        request = get(site.port).replace(b"GET", method)
        got = await proxy.ask(request + b"\r\n" + request + CLOSE)
    assert got.count(b"HTTP/1.1 ") == 2
    assert body_of(got).startswith(b"HTTP/1.1")
    assert b"ransfer-" not in got


async def test_head() -> None:
    async with (
        web_site(b"HTTP/1.1 200 OK\r\nContent-Length: 50000000000\r\n\r\n") as site,
        running(f"site.test:{site.port}", names=Names(**NAMES)) as proxy,
    ):
        answer = await proxy.ask(get(site.port).replace(b"GET", b"HEAD") + CLOSE)
    assert headers_of(answer)["content-length"] == "50000000000"
    assert body_of(answer) == b""


async def test_one_connection_many_requests_a_new_one_outside_for_each() -> None:
    async with web_site() as site, running(f"site.test:{site.port}", names=Names(**NAMES)) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        for number in range(5):
            writer.write(get(site.port, f"/{number}") + b"\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            assert "connection" not in headers_of(head)
            assert await reader.readexactly(5) == b"hello"
        writer.close()
    assert site.connections == 5
    assert all(headers_of(request)["connection"] == "close" for request in site.requests)


async def test_requests_that_are_sent_ahead_are_answered_in_order() -> None:
    def which(request: bytes) -> bytes:
        return ok(request.split(b" ")[1])

    async with web_site(which) as site, running(f"site.test:{site.port}", names=Names(**NAMES)) as proxy:
        ahead = b"".join(get(site.port, f"/{number}") + b"\r\n" for number in range(20))
        answer = await proxy.ask(ahead + get(site.port, "/end") + CLOSE)
    assert [part.rpartition(b"\r\n\r\n")[2] for part in answer.split(b"HTTP/1.1 ")[1:]] == [
        *(b"/%d" % number for number in range(20)),
        b"/end",
    ]


async def test_options_of_a_host() -> None:
    async with web_site() as site, running(f"site.test:{site.port}", names=Names(**NAMES)) as proxy:
        await proxy.ask(b"OPTIONS http://site.test:%d HTTP/1.1\r\nHost: x\r\n" % site.port + CLOSE)
    assert site.requests[0].startswith(b"OPTIONS * HTTP/1.1\r\n")


# -- 100-continue


async def test_a_host_that_says_continue() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert headers_of(head)["expect"] == "100-continue"
        writer.write(b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 100 Continue\r\nX-A: b\r\n\r\n")
        writer.write(ok(await reader.readexactly(3)))

    async with serving(handle) as site, running(f"site.test:{site.port}", names=Names(**NAMES)) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(post(site.port, b"Content-Length: 3", b"Expect: 100-continue"))
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"abc")
        assert status_of(await reader.readuntil(b"\r\n\r\n")) == 200
        assert await reader.readexactly(3) == b"abc"
        writer.close()


async def test_a_host_that_refuses_before_the_body() -> None:
    async with serving(refuse) as site, running(f"site.test:{site.port}", names=Names(**NAMES)) as proxy:
        answer = await proxy.ask(post(site.port, b"Content-Length: 50000000", b"Expect: 100-continue"))
        assert status_of(answer) == 417
        assert headers_of(answer)["connection"] == "close"
        # The same for a program that sends it all nevertheless.
        answer = await proxy.ask(post(site.port, b"Content-Length: 3000000") + bytes(3_000_000))
        assert status_of(answer) == 417


async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 417 No\r\nContent-Length: 2\r\n\r\nno")
    await writer.drain()
    writer.write_eof()
    await asyncio.sleep(0.2)


# -- back pressure, dead peers, limits


async def test_a_program_that_does_not_read_holds_up_the_host_and_no_memory() -> None:
    written = 0

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        while True:
            writer.write(bytes(100_000))
            await writer.drain()
            written += 100_000

    async with (
        serving(pour) as site,
        running(f"site.test:{site.port}", names=Names(**NAMES), timeouts=QUICK) as proxy,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port, limit=1000)
        writer.write(get(site.port) + b"\r\n")
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(0.2)
        before = written
        await asyncio.sleep(0.1)
        assert written == before < 30_000_000
        # It is given up in the end, with the end of the connection.
        await asyncio.sleep(0.6)
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(10**9)
        writer.close()
    assert "nothing has moved for 0.5 s" in proxy.log.entries[0].reason


async def test_a_program_that_reads_late_gets_it_all() -> None:
    """Also what the gateway still holds when the host is long done."""
    timeouts = Timeouts(idle=8, linger=0.1)
    async with (
        web_site(ok(bytes(20_000_000))) as site,
        running(f"site.test:{site.port}", names=Names(**NAMES), timeouts=timeouts, ahead=50_000_000) as proxy,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port, limit=1000)
        writer.write(get(site.port) + CLOSE)
        await asyncio.sleep(0.8)
        assert len(await reader.read()) > 20_000_000
        writer.close()


async def test_a_host_that_does_not_read_holds_up_the_program() -> None:
    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(1.5)

    async with (
        serving(hold) as site,
        running(f"site.test:{site.port}", names=Names(**NAMES), timeouts=QUICK) as proxy,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(post(site.port, b"Content-Length: 100000000"))
        sent = 0
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                while True:
                    writer.write(bytes(100_000))
                    await writer.drain()
                    sent += 100_000
        assert sent < 30_000_000
        assert status_of(await reader.readuntil(b"\r\n\r\n")) == 504
        writer.transport.abort()


async def test_a_host_that_says_nothing() -> None:
    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with (
        serving(hold) as site,
        running(f"site.test:{site.port}", names=Names(**NAMES), timeouts=QUICK) as proxy,
    ):
        answer = await proxy.ask(get(site.port) + b"\r\n")
    assert status_of(answer) == 504
    assert b"site.test is given up: nothing has moved for 0.5 s" in answer


async def test_a_host_that_trickles_has_an_end() -> None:
    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(1000):
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.02)

    async with (
        serving(trickle) as site,
        running(f"site.test:{site.port}", names=Names(**NAMES), limits=EgressLimits(seconds=0.6)) as proxy,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(get(site.port) + b"\r\n")
        began = time.monotonic()
        await reader.readuntil(b"\r\n\r\n")
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(1000)
        assert time.monotonic() - began < 5
        writer.close()
    assert "EGRESS_SECONDS" in proxy.log.entries[0].reason


@pytest.mark.parametrize("end", [True, False])
async def test_a_host_that_breaks_off(end: bool) -> None:
    """An answer that is not whole must not look whole."""

    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel")
        await writer.drain()
        if not end:
            writer.transport.abort()

    async with serving(half) as site, running(f"site.test:{site.port}", names=Names(**NAMES)) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(get(site.port) + b"\r\n")
        read = b""
        try:
            while data := await reader.read(1000):
                read += data
        except ConnectionResetError:
            pass
        writer.close()
    assert not read.endswith(b"0\r\n\r\n")
    assert proxy.log.entries[0].reason.startswith("site.test ")


@pytest.mark.parametrize("abort", [True, False])
async def test_a_host_that_hangs_up_without_an_answer(abort: bool) -> None:
    async def nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if abort:
            writer.transport.abort()

    async with serving(nothing) as site, running(f"site.test:{site.port}", names=Names(**NAMES)) as proxy:
        answer = await proxy.ask(get(site.port) + b"\r\n")
    assert status_of(answer) == 502
    assert b"site.test" in answer


async def test_a_program_that_hangs_up_ends_the_request_outside() -> None:
    ended = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        assert await reader.read() == b""
        ended.set()

    slow = Timeouts(idle=60)
    async with (
        serving(wait) as site,
        running(f"site.test:{site.port}", names=Names(**NAMES), timeouts=slow) as proxy,
    ):
        for abort in (True, False):
            ended.clear()
            _, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            writer.write(get(site.port) + b"\r\n")
            await asyncio.sleep(0.1)
            if abort:
                writer.transport.abort()
            else:
                writer.close()
            await asyncio.wait_for(ended.wait(), 5)


async def test_too_many_bytes() -> None:
    async with (
        web_site(b"HTTP/1.1 200 OK\r\n\r\n" + bytes(400_000)) as site,
        running(
            f"site.test:{site.port}", names=Names(**NAMES), limits=EgressLimits(max_bytes=100_000)
        ) as proxy,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(get(site.port) + b"\r\n")
        read = b""
        try:
            while data := await reader.read(100_000):
                read += data
        except ConnectionResetError:
            pass
        writer.close()
        assert not read.endswith(b"0\r\n\r\n")
        # A request that says how much it is has an answer; so has one that ends up too long.
        answer = await proxy.ask(post(site.port, b"Content-Length: 100001") + bytes(100_001))
        assert status_of(answer) == 413
        assert b"EGRESS_MAX_BYTES" in answer
        chunks = b"%x\r\n" % 60_000 + bytes(60_000) + b"\r\n"
        answer = await proxy.ask(post(site.port, b"Transfer-Encoding: chunked") + chunks * 3 + b"0\r\n\r\n")
        assert status_of(answer) == 413
    assert all("EGRESS_MAX_BYTES" in entry.reason for entry in proxy.log.entries)


async def test_an_answer_that_would_be_too_long_is_told_beforehand() -> None:
    async with (
        web_site(ok(bytes(200_000))) as site,
        running(
            f"site.test:{site.port}", names=Names(**NAMES), limits=EgressLimits(max_bytes=150_000)
        ) as proxy,
    ):
        answer = await proxy.ask(get(site.port) + CLOSE)
    assert status_of(answer) == 413
    assert b"site.test has more than the 150,000 bytes that EGRESS_MAX_BYTES allows" in answer


async def test_a_million_tiny_chunks_leave_others_their_turn() -> None:
    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n0\r\n\r\n")
        writer.write(ok(b"done"))

    async with (
        serving(swallow, limit=2**24) as site,
        running(f"site.test:{site.port}", names=Names(**NAMES)) as proxy,
    ):
        longest = 0.0

        async def watch() -> None:
            nonlocal longest
            while True:
                began = time.monotonic()
                await asyncio.sleep(0.001)
                longest = max(longest, time.monotonic() - began)

        watcher = asyncio.create_task(watch())
        body = b"1\r\nx\r\n" * 20_000 + b"0\r\n\r\n"
        answer = await proxy.ask(post(site.port, b"Transfer-Encoding: chunked", b"Connection: close") + body)
        watcher.cancel()
        await asyncio.gather(watcher, return_exceptions=True)
    assert body_of(answer) == b"done"
    assert longest < 0.5


# -- where TLS is ended


SECRET = b"Bearer very-secret"


class Answer:
    """Replaces the secret, and refuses what it is told to."""

    def feed(self, event: Event) -> Iterable[Event]:
        if isinstance(event, h11.Response):
            headers = [
                (name, value)
                for name, value in event.headers.raw_items()
                if name.lower() != b"content-length"
            ]
            if any(name == b"content-encoding" for name, _ in event.headers):
                raise GatewayError(502, "the answer is encoded")
            yield h11.Response(status_code=event.status_code, headers=headers, reason=event.reason)
        elif isinstance(event, h11.Data):
            if b"break" in event.data:
                raise GatewayError(502, "the answer cannot be read")
            for byte in event.data.replace(SECRET, b"[REDACTED]").split(b" "):
                yield h11.Data(data=byte)
        else:
            yield event


class Credentials:
    def __contains__(self, host: str) -> bool:
        return host in ("site.test", "127.0.0.1")

    def sent(self, host: str, headers: Headers) -> Headers:
        return [
            *(header for header in headers if header[0].lower() != b"authorization"),
            (b"Authorization", SECRET),
        ]

    def answer(self, host: str, method: bytes) -> Answer:
        return Answer()


class Authority:
    def __init__(self) -> None:
        self.ca = trustme.CA()

    @cache  # noqa: B019
    def context_for(self, host: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.ca.issue_cert(host).configure_cert(context)
        context.set_alpn_protocols(["http/1.1"])
        return context


async def inner(
    proxy: Running,
    port: int,
    trust: ssl.SSLContext,
    *requests: bytes,
    host: str = "site.test",
    named: str | None = None,
) -> list[bytes]:
    """Answers to requests within a tunnel that ends in the gateway."""
    head, reader, writer = await proxy.connect(f"{host}:{port}", limit=2**24)
    try:
        assert head.startswith(b"HTTP/1.1 200"), head
        await writer.start_tls(trust, server_hostname=named or host)
        answers = []
        for request in requests:
            writer.write(request)
            answer = await reader.readuntil(b"\r\n\r\n")
            if "content-length" in headers_of(answer):
                answer += await reader.readexactly(int(headers_of(answer)["content-length"]))
            else:
                answer += await reader.readuntil(b"0\r\n\r\n")
            answers.append(answer)
        return answers
    finally:
        writer.close()


async def test_a_credential_is_added_to_each_request_and_taken_out_of_each_answer() -> None:
    def back(request: bytes) -> bytes:
        return ok(b"you sent " + headers_of(request)["authorization"].encode())

    authority = Authority()
    async with (
        web_site(back, tls=server_tls("site.test")) as site,
        running(
            f"https://site.test:{site.port}",
            names=Names(**NAMES),
            credentials=Credentials(),
            certificates=authority,
            tls=client_tls(),
        ) as proxy,
    ):
        where = b"site.test:%d" % site.port
        request = b"GET /a?b HTTP/1.1\r\nHost: " + where + b"\r\nAuthorization: placeholder\r\n"
        request += b"Connection: authorization\r\n\r\n"
        upload = b"POST /c HTTP/1.1\r\nHost: " + where.upper() + b"\r\nContent-Length: 3\r\n\r\nabc"
        first, second = await inner(proxy, site.port, client_tls(authority.ca), request, upload)
    assert body_of(first) == body_of(second) == b"3\r\nyou\r\n4\r\nsent\r\na\r\n[REDACTED]\r\n0\r\n\r\n"
    assert [headers_of(request)["authorization"] for request in site.requests] == [SECRET.decode()] * 2
    assert site.requests[0].startswith(b"GET /a?b HTTP/1.1\r\n")
    assert site.requests[1].endswith(b"\r\n\r\nabc")
    assert site.connections == 2
    assert [(entry.method, entry.scheme, entry.path, entry.status) for entry in proxy.log.entries] == [
        ("GET", "https", "/a", 200),
        ("POST", "https", "/c", 200),
        ("CONNECT", "https", "", 200),
    ]


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: other.test\r\n\r\n", 421),
        (b"GET / HTTP/1.1\r\nHost: site.test:1\r\n\r\n", 421),
        (b"GET / HTTP/1.0\r\n\r\n", 421),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET http://site.test/ HTTP/1.1\r\nHost: site.test:PORT\r\n\r\n", 400),
        (b"GET https://other.test/ HTTP/1.1\r\nHost: site.test:PORT\r\n\r\n", 400),
        (b"CONNECT other.test:443 HTTP/1.1\r\nHost: site.test:PORT\r\n\r\n", 400),
        (b"CONNECT /x HTTP/1.1\r\nHost: site.test:PORT\r\n\r\n", 400),
        (b"GET /#a HTTP/1.1\r\nHost: site.test:PORT\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: site.test:PORT\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n", 501),
        (b"GET / HTTP/1.1\nHost: site.test:PORT\n\n", 400),
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 70_000, 431),
    ],
)
async def test_requests_within_a_tunnel_that_are_refused(request_bytes: bytes, status: int) -> None:
    authority = Authority()
    async with (
        web_site(tls=server_tls("site.test")) as site,
        running(
            f"https://site.test:{site.port}",
            names=Names(**NAMES),
            credentials=Credentials(),
            certificates=authority,
            tls=client_tls(),
        ) as proxy,
    ):
        request = request_bytes.replace(b"PORT", b"%d" % site.port)
        (answer,) = await inner(proxy, site.port, client_tls(authority.ca), request)
    assert status_of(answer) == status
    assert site.requests == []


async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"SSH-2.0-x\r\n")
    await reader.read()


async def test_the_certificate_outside_is_checked() -> None:
    strangers = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    strangers.issue_cert("site.test").configure_cert(context)
    for tls, word in ((context, b"certificate"), (server_tls("other.test"), b"certificate"), (None, b"TLS")):
        async with (
            serving(greet, tls=tls) as site,
            running(
                f"site.test:{site.port}",
                names=Names(**NAMES),
                credentials=Credentials(),
                certificates=Authority(),
                tls=client_tls(),
            ) as proxy,
        ):
            where = b"site.test:%d" % site.port
            answer = await proxy.ask(b"CONNECT " + where + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        assert status_of(answer) == 502
        assert where in answer.split(b"\r\n")[0]
        assert word in answer.split(b"\r\n")[0]
        assert site.requests == []


async def test_a_host_with_a_credential_needs_an_authority_and_a_rule() -> None:
    async with running(
        "site.test", names=Names(**NAMES), credentials=Credentials(), tls=client_tls()
    ) as proxy:
        answer = await proxy.ask(b"CONNECT site.test:443 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert status_of(answer) == 502
        assert b"EGRESS_CREDENTIALS" in answer
    async with running(
        names=Names(**NAMES), credentials=Credentials(), certificates=Authority(), tls=client_tls()
    ) as proxy:
        answer = await proxy.ask(b"CONNECT site.test:443 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert status_of(answer) == 403
        assert b"EGRESS_ALLOW is empty" in answer


async def test_over_http_no_credential_is_added() -> None:
    async with (
        web_site() as site,
        running(
            f"site.test:{site.port}",
            names=Names(**NAMES),
            credentials=Credentials(),
            certificates=Authority(),
            tls=client_tls(),
        ) as proxy,
    ):
        await proxy.ask(get(site.port) + b"Authorization: placeholder\r\n" + CLOSE)
    assert headers_of(site.requests[0])["authorization"] == "placeholder"


async def test_a_program_that_does_not_trust_the_authority() -> None:
    async with (
        web_site(tls=server_tls("site.test")) as site,
        running(
            f"site.test:{site.port}",
            names=Names(**NAMES),
            credentials=Credentials(),
            certificates=Authority(),
            tls=client_tls(),
        ) as proxy,
    ):
        with pytest.raises(ssl.SSLCertVerificationError):
            await inner(proxy, site.port, client_tls(), b"")
    assert site.requests == []


async def test_a_program_that_names_another_server() -> None:
    authority = Authority()
    async with (
        web_site(tls=server_tls("site.test")) as site,
        running(
            f"site.test:{site.port}",
            names=Names(**NAMES),
            credentials=Credentials(),
            certificates=authority,
            tls=client_tls(),
        ) as proxy,
    ):
        with pytest.raises(ssl.SSLError, match=r"(?i)unrecognized"):
            await inner(proxy, site.port, client_tls(authority.ca), b"", named="other.test")


async def test_an_answer_that_cannot_be_looked_through() -> None:
    authority = Authority()
    for body, status in ((ok(b"x", b"Content-Encoding: br"), 502), (ok(b"break"), 200)):
        async with (
            web_site(body, tls=server_tls("site.test")) as site,
            running(
                f"site.test:{site.port}",
                names=Names(**NAMES),
                credentials=Credentials(),
                certificates=authority,
                tls=client_tls(),
            ) as proxy,
        ):
            request = b"GET / HTTP/1.1\r\nHost: site.test:%d\r\n\r\n" % site.port
            if status == 502:
                (answer,) = await inner(proxy, site.port, client_tls(authority.ca), request)
                assert b"the answer is encoded" in answer
            else:
                with pytest.raises((asyncio.IncompleteReadError, OSError)):
                    await inner(proxy, site.port, client_tls(authority.ca), request)
        assert "the answer" in proxy.log.entries[0].reason


async def test_an_early_connection_that_the_host_has_closed_is_made_anew() -> None:
    """It is opened with the tunnel, to say that it can be; a host does not keep it for ever."""
    connections = 0

    async def impatient(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        if connections > 1:
            await read_message(reader)
            writer.write(ok(b"hello"))

    authority = Authority()
    async with (
        serving(impatient, tls=server_tls("site.test")) as site,
        running(
            f"site.test:{site.port}",
            names=Names(**NAMES),
            credentials=Credentials(),
            certificates=authority,
            tls=client_tls(),
        ) as proxy,
    ):
        _head, reader, writer = await proxy.connect(f"site.test:{site.port}")
        await writer.start_tls(client_tls(authority.ca), server_hostname="site.test")
        await asyncio.sleep(0.1)
        writer.write(b"GET / HTTP/1.1\r\nHost: site.test:%d\r\n\r\n" % site.port)
        assert status_of(await reader.readuntil(b"\r\n\r\n")) == 200
        writer.close()
    assert connections == 2


async def test_large_bodies_over_ended_tls() -> None:
    def back(request: bytes) -> bytes:
        return ok(body_of(request))

    authority = Authority()
    async with (
        web_site(back, tls=server_tls("site.test")) as site,
        running(
            f"site.test:{site.port}",
            names=Names(**NAMES),
            credentials=Credentials(),
            certificates=authority,
            tls=client_tls(),
        ) as proxy,
    ):
        body = b"x" * 2_000_000
        request = b"POST / HTTP/1.1\r\nHost: site.test:%d\r\nContent-Length: %d\r\n\r\n" % (
            site.port,
            len(body),
        )
        (answer,) = await inner(proxy, site.port, client_tls(authority.ca), request + body)
    assert answer.count(b"x") == len(body)


async def test_a_tunnel_that_ends_is_closed_by_both() -> None:
    authority = Authority()
    async with (
        web_site(tls=server_tls("site.test")) as site,
        running(
            f"site.test:{site.port}",
            names=Names(**NAMES),
            credentials=Credentials(),
            certificates=authority,
            tls=client_tls(),
            timeouts=QUICK,
        ) as proxy,
    ):
        # Says nothing within TLS, and is closed without a word.
        _, reader, writer = await proxy.connect(f"site.test:{site.port}")
        await writer.start_tls(client_tls(authority.ca), server_hostname="site.test")
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()
        # Never begins TLS at all, or stops within it.
        for start in (b"", b"\x16\x03\x01"):
            _, reader, writer = await proxy.connect(f"site.test:{site.port}")
            writer.write(start)
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.wait_for(reader.read(), 5) == b""
            writer.close()
