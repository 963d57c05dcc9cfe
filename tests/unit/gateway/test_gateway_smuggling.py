"""Request smuggling: ambiguous requests are refused, and accepted requests are written anew."""

from __future__ import annotations

import asyncio
import contextlib

import h11
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.servers.gateway_loopback import Running, Site, reached, refused
from tests.servers.http_messages import body_of, headers_of, ok, reason_of, status_of

HIDDEN = b"GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n"
START = b"POST http://site.test:PORT/ HTTP/1.1\r\nHost: site.test\r\n"


async def sent(request: bytes, *, end: bool = False) -> tuple[bytes, Site, Running]:
    """Send a request through the proxy; return the answer, and the allowed site with what it received."""
    async with reached(ok(b"hello")) as (site, proxy):
        answer = await proxy.ask(request.replace(b"PORT", b"%d" % site.port), end=end)
    return answer, site, proxy


MALFORMED = {
    "CL.TE": START + b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG",
    "TE.CL": START
    + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n5c\r\n"
    + HIDDEN
    + b"\r\n0\r\n\r\n",
    "TE.TE": START + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "TE of two codings": START + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "TE with NUL": START + b"Transfer-Encoding: chunked\x00\r\n\r\n0\r\n\r\n",
    "space before colon": START + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "fold": START + b"X-A: b\r\n c\r\n\r\n",
    "first line folded": b"GET http://site.test:PORT/ HTTP/1.1\r\n X: y\r\nHost: x\r\n\r\n",
    "CL twice, the same": START + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    "CL plus": START + b"Content-Length: +3\r\n\r\nabc",
    "CL with underscore": START + b"Content-Length: 1_0\r\n\r\n0123456789",
    "CL in other digits": START + "Content-Length: ٣\r\n\r\nabc".encode(),
    "Host twice": START + b"Host: evil.test\r\n\r\n",
    "no Host": b"GET http://site.test:PORT/ HTTP/1.1\r\n\r\n",
    "bare LF": START.replace(b"\r\n", b"\n") + b"Content-Length: 3\n\nabc",
    "bare LF once": START + b"X-A: b\nContent-Length: 3\r\n\r\nabc",
    "bare CR": START + b"X-A: b\rContent-Length: 3\r\n\r\nabc",
    "NUL in a value": START + b"X-A: b\x00c\r\n\r\n",
    "invalid name": START + b"X A: b\r\n\r\n",
    "tab in the line": b"GET\thttp://site.test:PORT/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "space in the target": b"GET http://site.test:PORT/a b HTTP/1.1\r\nHost: x\r\n\r\n",
    "HTTP/0.9": b"GET http://site.test:PORT/\r\n\r\n",
    "HTTP/2.0": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/1.0 in chunks": START.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "empty lines first": b"\r\n\r\n" + START + b"\r\n",
    "target beyond ASCII": "GET http://site.test:PORT/ä HTTP/1.1\r\nHost: x\r\n\r\n".encode(),
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32),
    "expectation": START + b"Expect: something\r\nContent-Length: 3\r\n\r\nabc",
    "CONNECT with a length": b"CONNECT site.test:PORT HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n"
    + bytes(50),
    "CONNECT chunked": b"CONNECT a:PORT HTTP/1.1\r\nHost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "CONNECT with a line break": b"CONNECT site.test:PORT\r\nX: evil.test:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    "endless target": b"GET http://site.test:PORT/" + b"a" * 70_000,
    "endless headers": START + b"A: b\r\n" * 12_000,
    "upgrade of several": START + b"Connection: upgrade\r\nUpgrade: h2c, websocket\r\n\r\n",
}


@pytest.mark.parametrize("request_bytes", MALFORMED.values(), ids=MALFORMED.keys())
async def test_malformed_requests_are_refused(request_bytes: bytes) -> None:
    answer, site, proxy = await sent(request_bytes)
    assert answer.count(b"HTTP/1.1 ") == 1
    assert status_of(answer) in (400, 403, 417, 431, 501, 505)
    refused(proxy, answer, status_of(answer), "EGRESS_ALLOW")
    assert "site.test" in reason_of(answer) or not request_bytes.startswith(START)
    assert (site.connections, proxy.names.asked) == (0, [])
    assert len(proxy.log.entries) == 1


BAD_CHUNKS = {
    "no number": b"xyz\r\nabc\r\n0\r\n\r\n",
    "too long a number": b"00000000000000000000000000003\r\nabc\r\n0\r\n\r\n",
    "bare LF after the size": b"3\nabc\r\n0\r\n\r\n",
    "LF in an extension": b"3;a\nb\r\nabc\r\n0\r\n\r\n",
    "endless extension": b"3;" + b"a" * 70_000,
    "endless trailers": b"0\r\n" + b"X-A: b\r\n" * 10_000,
    "invalid trailer": b"0\r\nX A: b\r\n\r\n",
}


@pytest.mark.parametrize("body", BAD_CHUNKS.values(), ids=BAD_CHUNKS.keys())
async def test_malformed_chunks_end_the_request(body: bytes) -> None:
    answer, site, proxy = await sent(START + b"Transfer-Encoding: chunked\r\n\r\n" + body)
    if answer:
        assert status_of(answer) in (400, 431)
        refused(proxy, answer, status_of(answer), "site.test", "EGRESS_ALLOW")
    assert site.requests == []


async def test_chunk_extensions_and_trailers_are_not_forwarded() -> None:
    answer, site, _ = await sent(
        START + b"Transfer-Encoding: chunked\r\nTrailer: Host, X-A\r\nConnection: close\r\n\r\n"
        b'3;name="va;lue"\r\nabc\r\n2 \r\nde\r\n0;x\r\nHost: evil.test\r\nX-A: b\r\nContent-Length: 5\r\n\r\n'
    )
    assert status_of(answer) == 200
    head, _, body = site.requests[0].partition(b"\r\n\r\n")
    assert body == b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    assert b"railer" not in head
    assert b"evil" not in site.requests[0]


async def test_hidden_request_is_checked_as_its_own_request() -> None:
    """Bytes after a request are the next request, and are checked like any other."""
    answer, site, proxy = await sent(START + b"Content-Length: 3\r\n\r\nabc" + HIDDEN)
    first, second = answer.split(b"HTTP/1.1 ")[1:]
    assert first.startswith(b"200")
    assert second.startswith(b"403")
    assert b"evil.test:80 is not in EGRESS_ALLOW" in second
    assert len(site.requests) == 1
    assert proxy.names.asked == ["site.test"]
    assert [entry.host for entry in proxy.log.entries] == ["site.test", "evil.test"]


@pytest.mark.parametrize("host", [b"evil.test", b""])
async def test_url_decides_the_host_and_not_the_header(host: bytes) -> None:
    answer, site, proxy = await sent(
        b"GET http://site.test:PORT/ HTTP/1.1\r\nHost: "
        + host
        + b"\r\nX-Forwarded-Host: a\r\nConnection: close\r\n\r\n"
    )
    assert body_of(answer) == b"hello"
    assert headers_of(site.requests[0])["host"] == site.where
    assert site.requests[0].lower().count(b"\r\nhost:") == 1
    assert proxy.names.asked == ["site.test"]


async def test_connection_headers_are_not_forwarded() -> None:
    _, site, _ = await sent(
        START
        + b"Connection: close, X-Mine, Host, Content-Length, Authorization\r\nX-Mine: 1\r\nKeep-Alive: 5\r\n"
        b"TE: x\r\nProxy-Authorization: Basic eDp5\r\nPROXY-Connection: keep-alive\r\nProxy-Thing: 1\r\n"
        b"HTTP2-Settings: AAMAAABkAAQAAP__\r\nUpgrade: h2c\r\nAuthorization: Basic eDp5\r\nX-Kept: 1\r\n"
        b"Content-Length: 3\r\n\r\nabc"
    )
    assert list(headers_of(site.requests[0]).items()) == [
        ("host", site.where),
        ("authorization", "Basic eDp5"),
        ("x-kept", "1"),
        ("content-length", "3"),
        ("connection", "close"),
    ]
    assert site.requests[0].endswith(b"\r\n\r\nabc")


PIECES = [
    *(b"GET ", b"POST ", b"CONNECT ", b"http://site.test:PORT/", b"/", b" HTTP/1.1", b" HTTP/1.0", b"abc"),
    *(b"Host: x", b"Content-Length: 3", b"Content-Length: 0", b"Transfer-Encoding: chunked"),
    *(b"evil.test:443", b";"),
    *(b"\r\n", b"\n", b"\r", b": ", b" ", b"\t", b"\x00", b"\r\n\r\n", b"0\r\n\r\n", b"3\r\nabc\r\n"),
    b"Connection: close",
]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=14), st.integers(0, 200))
def test_forwarded_request_is_never_ambiguous(pieces: list[bytes], cut: int) -> None:
    """Random requests, cut in two: the site receives only strict HTTP with its own host name."""

    async def run() -> None:
        async with reached(ok(b"hello")) as (site, proxy):
            data = b"".join([START, *pieces]).replace(b"PORT", b"%d" % site.port)
            reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            writer.write(data[:cut])
            await asyncio.sleep(0)
            writer.write(data[cut:])
            writer.write_eof()
            with contextlib.suppress(ConnectionResetError):
                await asyncio.wait_for(reader.read(), 5)
            writer.close()
        assert set(proxy.names.asked) <= {"site.test"}
        for request in site.requests:
            strict = h11.Connection(h11.SERVER)
            strict.receive_data(request)
            event = strict.next_event()
            assert isinstance(event, h11.Request)
            assert dict(event.headers)[b"host"] == b"site.test:%d" % site.port
            head = request.partition(b"\r\n\r\n")[0]
            assert b"\n" not in head.replace(b"\r\n", b"")
            names = [line.partition(b":")[0].lower() for line in head.split(b"\r\n")[1:]]
            assert len({b"content-length", b"transfer-encoding"} & set(names)) <= 1
            assert len(names) == len(set(names))

    asyncio.run(run())
