"""One request is one request: what two readers could read in two ways is refused, or written in one."""

from __future__ import annotations

import asyncio
import contextlib

import h11
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.gateway_loopback import (
    CLOSE,
    Names,
    Running,
    Site,
    body_of,
    headers_of,
    ok,
    running,
    status_of,
    web_site,
)

HIDDEN = b"GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n"
START = b"POST http://site.test:PORT/ HTTP/1.1\r\nHost: site.test\r\n"


async def sent(request: bytes, *, end: bool = False) -> tuple[bytes, Site, Running]:
    """The answer to a request, and what of it came out at a site that is allowed."""
    async with (
        web_site(ok(b"hello")) as site,
        running(f"http://site.test:{site.port}", names=Names(site_test=["127.0.0.1"])) as proxy,
    ):
        answer = await proxy.ask(request.replace(b"PORT", b"%d" % site.port), end=end)
    return answer, site, proxy


MALFORMED = {
    "CL.TE": START + b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG",
    "TE.CL": START
    + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n5c\r\n"
    + HIDDEN
    + b"\r\n0\r\n\r\n",
    "TE.TE": START + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "TE twice": START + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "TE of two codings": START + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "TE unknown": START + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "TE quoted": START + b'Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n',
    "TE with vertical tab": START + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "TE with NUL": START + b"Transfer-Encoding: chunked\x00\r\n\r\n0\r\n\r\n",
    "TE folded": START + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "TE and identity": START + b"Transfer-Encoding: identity\r\nContent-Length: 3\r\n\r\nabc",
    "space before colon": START + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "tab before colon": START + b"Content-Length\t: 3\r\n\r\nabc",
    "space before name": START + b" Content-Length: 3\r\n\r\nabc",
    "fold": START + b"X-A: b\r\n c\r\n\r\n",
    "fold of a tab": START + b"X-A: b\r\n\tContent-Length: 3\r\n\r\n",
    "first line folded": b"GET http://site.test:PORT/ HTTP/1.1\r\n X: y\r\nHost: x\r\n\r\n",
    "CL twice, different": START + b"Content-Length: 3\r\nContent-Length: 5\r\n\r\nabcde",
    "CL twice, the same": START + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    "CL list": START + b"Content-Length: 3, 3\r\n\r\nabc",
    "CL negative": START + b"Content-Length: -1\r\n\r\n",
    "CL plus": START + b"Content-Length: +3\r\n\r\nabc",
    "CL hexadecimal": START + b"Content-Length: 0x3\r\n\r\nabc",
    "CL empty": START + b"Content-Length:\r\n\r\nabc",
    "CL with underscore": START + b"Content-Length: 1_0\r\n\r\n0123456789",
    "CL of too many digits": START + b"Content-Length: 99999999999999999999999\r\n\r\nabc",
    "CL in other digits": START + "Content-Length: ٣\r\n\r\nabc".encode(),
    "Host twice": START + b"Host: evil.test\r\n\r\n",
    "no Host": b"GET http://site.test:PORT/ HTTP/1.1\r\n\r\n",
    "bare LF": START.replace(b"\r\n", b"\n") + b"Content-Length: 3\n\nabc",
    "bare LF once": START + b"X-A: b\nContent-Length: 3\r\n\r\nabc",
    "bare LF at the end": START + b"\nabc\r\n\r\n",
    "bare CR": START + b"X-A: b\rContent-Length: 3\r\n\r\nabc",
    "NUL in a value": START + b"X-A: b\x00c\r\n\r\n",
    "NUL in a name": START + b"X\x00A: b\r\n\r\n",
    "NUL in the line": b"GET http://site.test:PORT/\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
    "escape in a value": START + b"X-A: \x1b[2J\r\n\r\n",
    "DEL in a value": START + b"X-A: \x7f\r\n\r\n",
    "no colon": START + b"X-A\r\n\r\n",
    "no name": START + b": b\r\n\r\n",
    "name that is none": START + b"X A: b\r\n\r\n",
    "name beyond ASCII": START + "Ä: b\r\n\r\n".encode(),
    "two spaces": b"GET  http://site.test:PORT/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "tab in the line": b"GET\thttp://site.test:PORT/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "space at the end of the line": b"GET http://site.test:PORT/ HTTP/1.1 \r\nHost: x\r\n\r\n",
    "space in the target": b"GET http://site.test:PORT/a b HTTP/1.1\r\nHost: x\r\n\r\n",
    "no version": b"GET http://site.test:PORT/\r\nHost: x\r\n\r\n",
    "HTTP/0.9": b"GET http://site.test:PORT/\r\n\r\n",
    "HTTP/1.2": b"GET http://site.test:PORT/ HTTP/1.2\r\nHost: x\r\n\r\n",
    "HTTP/2.0": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/11": b"GET http://site.test:PORT/ HTTP/11\r\nHost: x\r\n\r\n",
    "http in lower case": b"GET http://site.test:PORT/ http/1.1\r\nHost: x\r\n\r\n",
    "HTTP/1.0 in chunks": START.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "empty lines first": b"\r\n\r\n" + START + b"\r\n",
    "no method": b" http://site.test:PORT/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "method that is none": b"GE(T http://site.test:PORT/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "target beyond ASCII": "GET http://site.test:PORT/ä HTTP/1.1\r\nHost: x\r\n\r\n".encode(),
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32),
    "SOCKS 5": b"\x05\x01\x00",
    "SOCKS 4": b"\x04\x01\x01\xbb\x7f\x00\x00\x01x\x00",
    "expectation": START + b"Expect: something\r\nContent-Length: 3\r\n\r\nabc",
    "CONNECT with a length": b"CONNECT site.test:PORT HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n"
    + bytes(50),
    "CONNECT chunked": b"CONNECT a:PORT HTTP/1.1\r\nHost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "CONNECT with a line break": b"CONNECT site.test:PORT\r\nX: evil.test:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    "CONNECT with a bare line break": b"CONNECT evil.test:443\nX: HTTP/1.1\r\nHost: x\r\n\r\n",
    "CONNECT with a break in a name": b"CONNECT site.test%0d%0aHost:PORT HTTP/1.1\r\nHost: x\r\n\r\n",
    "upgrade": START + b"Connection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    "upgrade of several": START + b"Connection: upgrade\r\nUpgrade: h2c, websocket\r\n\r\n",
}


@pytest.mark.parametrize("request_bytes", MALFORMED.values(), ids=MALFORMED.keys())
async def test_malformed_requests_are_refused(request_bytes: bytes) -> None:
    answer, site, proxy = await sent(request_bytes)
    assert answer.count(b"HTTP/1.1 ") == 1
    assert status_of(answer) in (400, 403, 408, 417, 501, 505)
    assert headers_of(answer)["connection"] == "close"
    assert (site.connections, proxy.names.asked) == (0, [])
    assert len(proxy.log.entries) == 1


BAD_CHUNKS = {
    "no number": b"xyz\r\nabc\r\n0\r\n\r\n",
    "negative": b"-3\r\nabc\r\n0\r\n\r\n",
    "0x": b"0x3\r\nabc\r\n0\r\n\r\n",
    "space first": b" 3\r\nabc\r\n0\r\n\r\n",
    "too long a number": b"00000000000000000000000000003\r\nabc\r\n0\r\n\r\n",
    "bare LF after the size": b"3\nabc\r\n0\r\n\r\n",
    "bare LF after the data": b"3\r\nabc\n0\r\n\r\n",
    "data too long": b"3\r\nabcd\r\n0\r\n\r\n",
    "LF in an extension": b"3;a\nb\r\nabc\r\n0\r\n\r\n",
    "endless extension": b"3;" + b"a" * 70_000,
    "endless trailers": b"0\r\n" + b"X-A: b\r\n" * 10_000,
    "trailer that is none": b"0\r\nX A: b\r\n\r\n",
}


@pytest.mark.parametrize("body", BAD_CHUNKS.values(), ids=BAD_CHUNKS.keys())
async def test_malformed_chunks_end_the_request(body: bytes) -> None:
    complete: list[bytes] = []

    def keep(request: bytes) -> bytes:
        complete.append(request)
        return ok(b"hello")

    async with (
        web_site(keep) as site,
        running(f"site.test:{site.port}", names=Names(site_test=["127.0.0.1"])) as proxy,
    ):
        answer = await proxy.ask(
            b"POST http://site.test:%d/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" % site.port
            + body
        )
        assert answer == b"" or status_of(answer) in (400, 431)
    assert complete == []


async def test_chunk_extensions_and_trailers_go_no_further() -> None:
    answer, site, _ = await sent(
        START + b"Transfer-Encoding: chunked\r\nTrailer: Host, X-A\r\nConnection: close\r\n\r\n"
        b'3;name="va;lue"\r\nabc\r\n2 \r\nde\r\n0;x\r\nHost: evil.test\r\nX-A: b\r\nContent-Length: 5\r\n\r\n'
    )
    assert status_of(answer) == 200
    head, _, body = site.requests[0].partition(b"\r\n\r\n")
    assert body == b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    assert b"railer" not in head
    assert b"evil" not in site.requests[0]


async def test_a_hidden_request_is_a_request_of_its_own() -> None:
    """What follows a request is the next one, and is checked as any other."""
    answer, site, proxy = await sent(START + b"Content-Length: 3\r\n\r\nabc" + HIDDEN)
    first, second = answer.split(b"HTTP/1.1 ")[1:]
    assert first.startswith(b"200")
    assert second.startswith(b"403")
    assert b"evil.test:80 is not in EGRESS_ALLOW" in second
    assert len(site.requests) == 1
    assert proxy.names.asked == ["site.test"]
    assert [entry.host for entry in proxy.log.entries] == ["site.test", "evil.test"]


async def test_what_was_read_ahead_is_looked_at_as_closely() -> None:
    second = (
        b"POST http://site.test:PORT HTTP/1.1\r\nHost:\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc"
    )
    answer, site, _ = await sent(START + b"Content-Length: 3\r\n\r\nabc" + second)
    assert [part[:3] for part in answer.split(b"HTTP/1.1 ")[1:]] == [b"200", b"400"]
    assert len(site.requests) == 1


@pytest.mark.parametrize(
    "host",
    [b"evil.test", b"site.test:22", b"", b"site.test, evil.test", b"169.254.169.254", b"user@evil.test"],
)
async def test_the_url_says_which_host_it_is(host: bytes) -> None:
    answer, site, proxy = await sent(
        b"GET http://site.test:PORT/ HTTP/1.1\r\nHost: " + host + b"\r\nX-Forwarded-Host: a\r\n" + CLOSE
    )
    assert body_of(answer) == b"hello"
    assert headers_of(site.requests[0])["host"] == f"site.test:{site.port}"
    assert site.requests[0].lower().count(b"\r\nhost:") == 1
    assert proxy.names.asked == ["site.test"]


async def test_headers_of_a_connection_go_no_further() -> None:
    _, site, _ = await sent(
        START
        + b"Connection: close, X-Mine, Host, Content-Length, Authorization\r\nX-Mine: 1\r\nKeep-Alive: 5\r\n"
        b"TE: x\r\nProxy-Authorization: Basic eDp5\r\nPROXY-Connection: keep-alive\r\nProxy-Thing: 1\r\n"
        b"HTTP2-Settings: AAMAAABkAAQAAP__\r\nUpgrade: h2c\r\nAuthorization: Basic eDp5\r\nX-Kept: 1\r\n"
        b"Content-Length: 3\r\n\r\nabc"
    )
    assert list(headers_of(site.requests[0]).items()) == [
        ("host", f"site.test:{site.port}"),
        ("authorization", "Basic eDp5"),
        ("x-kept", "1"),
        ("content-length", "3"),
        ("connection", "close"),
    ]
    assert site.requests[0].endswith(b"\r\n\r\nabc")


BAD_ANSWERS = {
    "not HTTP": b"220 mail.site.test ESMTP\r\n\r\n",
    "SSH": b"SSH-2.0-x\r\n",
    "CL twice": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nabcde",
    "TE of two codings": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "space before colon": b"HTTP/1.1 200 OK\r\nContent-Length : 3\r\n\r\nabc",
    "NUL": b"HTTP/1.1 200 OK\r\nX-A: \x00\r\n\r\n",
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: ws\r\nConnection: Upgrade\r\n\r\nabc",
    "endless head": b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 20_000,
    "nothing": b"\r\n",
    "a status of two digits": b"HTTP/1.1 20 OK\r\n\r\n",
}


@pytest.mark.parametrize("bad", BAD_ANSWERS.values(), ids=BAD_ANSWERS.keys())
async def test_answers_that_are_none(bad: bytes) -> None:
    async with (
        web_site(bad) as site,
        running(f"site.test:{site.port}", names=Names(site_test=["127.0.0.1"])) as proxy,
    ):
        answer = await proxy.ask(
            f"GET http://site.test:{site.port}/ HTTP/1.1\r\nHost: x\r\n".encode() + CLOSE
        )
    assert status_of(answer) == 502
    assert b"site.test" in answer
    assert answer.count(b"HTTP/1.1 ") == 1


async def test_an_answer_that_brings_another_is_one_answer() -> None:
    two = ok(b"hello") + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
    async with (
        web_site(two) as site,
        running(f"site.test:{site.port}", names=Names(site_test=["127.0.0.1"])) as proxy,
    ):
        request = f"GET http://site.test:{site.port}/ HTTP/1.1\r\nHost: x\r\n".encode()
        answer = await proxy.ask(request + b"\r\n" + request + CLOSE)
    assert answer.count(b"hello") == 2
    assert b"evil" not in answer


async def test_an_answer_with_length_and_chunks_has_chunks() -> None:
    both = (
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    )
    async with (
        web_site(both) as site,
        running(f"site.test:{site.port}", names=Names(site_test=["127.0.0.1"])) as proxy,
    ):
        answer = await proxy.ask(
            f"GET http://site.test:{site.port}/ HTTP/1.1\r\nHost: x\r\n".encode() + CLOSE
        )
    assert "content-length" not in headers_of(answer)
    assert body_of(answer) == b"5\r\nhello\r\n0\r\n\r\n"


PIECES = [
    *(
        b"GET ",
        b"POST ",
        b"CONNECT ",
        b"http://site.test:PORT/",
        b"/",
        b" HTTP/1.1",
        b" HTTP/1.0",
        b"\r\n",
        b"\n",
        b"\r",
    ),
    *(
        b"Host: x",
        b"Content-Length: 3",
        b"Content-Length: 0",
        b"Transfer-Encoding: chunked",
        b": ",
        b" ",
        b"\t",
    ),
    *(
        b"\r\n\r\n",
        b"0\r\n\r\n",
        b"3\r\nabc\r\n",
        b"abc",
        b"\x00",
        b";",
        b"Connection: close",
        b"evil.test:443",
    ),
]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=14), st.integers(0, 200))
def test_what_comes_out_is_one_request_that_everybody_reads_alike(pieces: list[bytes], cut: int) -> None:
    """Whatever goes in, in two pieces: what comes out is strict HTTP, for the one host that is allowed."""

    async def run() -> None:
        async with (
            web_site(ok(b"hello")) as site,
            running(f"http://site.test:{site.port}", names=Names(site_test=["127.0.0.1"])) as proxy,
        ):
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
