"""What the proxy decides: who is reached, and what is said to those who are not."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from typing import Any

import pytest

from libs.gateway.limits import EgressLimits, Timeouts
from libs.gateway.protocol import ServiceRequest, ServiceResponse
from libs.gateway.streams import Stream
from tests.unit.gateway_loopback import (
    CLOSE,
    QUICK,
    WITHIN,
    Names,
    body_of,
    client_tls,
    headers_of,
    ok,
    running,
    server_tls,
    serving,
    status_of,
    web_site,
)
from tests.unit.test_gateway_client_hello import encrypted_client_hello


def reason_of(answer: bytes) -> str:
    return answer.split(b"\r\n")[0].split(b" ", 2)[2].decode()


def refused(answer: bytes, status: int, *words: str) -> None:
    """The same is said in the reason and in the body."""
    assert status_of(answer) == status, answer
    assert body_of(answer).decode() == reason_of(answer) + "\n"
    assert headers_of(answer)["connection"] == "close"
    for word in words:
        assert word in reason_of(answer)


# -- names and addresses


async def test_a_page_of_a_host_that_is_allowed() -> None:
    async with (
        web_site(ok(b"hello", b"X-Kind: test")) as site,
        running(f"http://site.test:{site.port}", names=Names(site_test=["127.0.0.1"])) as proxy,
    ):
        answer = await proxy.ask(
            f"GET http://site.test:{site.port}/a?b=c HTTP/1.1\r\nHost: x\r\n".encode() + CLOSE
        )
    assert status_of(answer) == 200
    assert body_of(answer) == b"hello"
    assert headers_of(answer)["x-kind"] == "test"
    head = site.requests[0].split(b"\r\n")
    assert head[0] == b"GET /a?b=c HTTP/1.1"
    assert head[1] == b"Host: site.test:%d" % site.port
    (entry,) = proxy.log.entries
    assert (entry.sandbox, entry.thread, entry.decision, entry.status) == (
        "box-1",
        "thread-1",
        "allowed",
        200,
    )
    assert (entry.method, entry.scheme, entry.host, entry.path) == ("GET", "http", "site.test", "/a")
    assert entry.bytes_in > 40
    assert 0 < entry.seconds < 5


ODD_HOSTS = [
    *("0177.0.0.1", "2130706433", "0x7f000001", "0x7f.1", "127.1", "127.0.0.01", "0"),
    *("[::1%25lo]", "[fe80::1%eth0]", "[::g]", "site.test.", "a..b", "site.test%00", "site.test%0d%0aX:y"),
    *("user@site.test", "-a.test", "*.test", "site.test\\", "a" * 300),
]


@pytest.mark.parametrize("host", ODD_HOSTS)
async def test_odd_hosts_are_refused(host: str) -> None:
    async with running("site.test", "127.0.0.1", "localhost") as proxy:
        for request in (f"CONNECT {host}:443 HTTP/1.1\r\n", f"GET http://{host}/ HTTP/1.1\r\n"):
            answer = await proxy.ask(request.encode() + b"Host: site.test\r\n\r\n")
            assert status_of(answer) in (400, 403)
            assert "EGRESS_ALLOW" in reason_of(answer)
            assert host[:80] in reason_of(answer)
    assert proxy.names.asked == []
    assert {entry.decision for entry in proxy.log.entries} == {"refused"}


@pytest.mark.parametrize("allow", [[], ["site.test"], ["*.site.test", "https://other.test:8443"]])
@pytest.mark.parametrize(
    "host", ["other.test", "127.0.0.1", "[::1]", "localhost", "169.254.169.254", "[::ffff:127.0.0.1]"]
)
async def test_what_is_not_listed_is_refused_and_never_looked_up(allow: list[str], host: str) -> None:
    async with running(*allow, names=Names(other_test=["127.0.0.1"])) as proxy:
        tunnel = await proxy.ask(f"CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n".encode())
        page = await proxy.ask(f"GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n".encode() + CLOSE)
    shown = "127.0.0.1" if "ffff" in host else host
    for answer in (tunnel, page):
        refused(answer, 403, "EGRESS_ALLOW", shown.strip("[]"))
    if allow:
        assert reason_of(tunnel) == (
            f"{shown}:443 is not in EGRESS_ALLOW: ask the person to add https://{shown} to it, or do without"
        )
    else:
        assert reason_of(page) == f"EGRESS_ALLOW is empty: {shown.strip('[]')} is refused, as every host is"
    assert proxy.names.asked == []  # a name is no way out either
    assert [entry.decision for entry in proxy.log.entries] == ["refused", "refused"]


@pytest.mark.parametrize(
    "where", ["site.test:22", "site.test:25", "site.test:80", "site.test:8443", "site.test:65535"]
)
async def test_other_ports_are_refused(where: str) -> None:
    async with running("https://site.test", names=Names(site_test=["127.0.0.1"])) as proxy:
        refused(await proxy.ask(f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n\r\n".encode()), 403, where)


@pytest.mark.parametrize(
    "where",
    [
        "site.test",
        "site.test:",
        "site.test:0",
        "site.test:65536",
        "site.test:-1",
        "site.test:0443",
        "site.test:+443",
        "site.test:443:443",
        ":443",
        "443",
        "/",
        "https://site.test:443",
        "site.test:443/",
        "[::1",
        "*:443",
        "site.test:443,other.test:443",
    ],
)
async def test_tunnels_to_nowhere_are_refused(where: str) -> None:
    async with running("site.test", names=Names(site_test=["127.0.0.1"])) as proxy:
        answer = await proxy.ask(f"CONNECT {where} HTTP/1.1\r\nHost: site.test\r\n\r\n".encode())
        assert status_of(answer) in (400, 403)
        assert where.rpartition(":")[0][:3] in reason_of(answer)
    assert proxy.names.asked == []


PRIVATE_ADDRESSES = [
    *(
        "127.0.0.1",
        "10.0.0.1",
        "192.168.0.1",
        "169.254.1.1",
        "100.64.0.1",
        "0.0.0.0",
        "::1",
        "fd00::1",
        "fe80::1",
    ),
    *("::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"),
]


@pytest.mark.parametrize("address", PRIVATE_ADDRESSES)
async def test_names_that_lead_to_private_addresses_are_refused(address: str) -> None:
    async with running("site.test", names=Names(site_test=["8.8.8.8", address]), private=()) as proxy:
        tunnel = await proxy.ask(b"CONNECT site.test:443 HTTP/1.1\r\nHost: site.test\r\n\r\n")
        page = await proxy.ask(b"GET http://site.test/ HTTP/1.1\r\nHost: site.test\r\n" + CLOSE)
    for answer in (tunnel, page):
        refused(answer, 403, "site.test leads to", "private: EGRESS_PRIVATE does not list it")


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "10.0.0.1", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]"])
async def test_private_addresses_are_refused_although_they_are_listed(host: str) -> None:
    allow = "127.0.0.1" if "ffff" in host else host
    async with running(allow, private=()) as proxy:
        answer = await proxy.ask(f"CONNECT {host}:443 HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    refused(answer, 403, "EGRESS_PRIVATE")


async def test_metadata_is_refused_whatever_is_listed() -> None:
    import ipaddress

    everything = [ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0")]
    names = Names(site_test=["169.254.169.254"])
    async with running("site.test", "169.254.169.254", names=names, private=everything) as proxy:
        for host in ("site.test", "169.254.169.254"):
            answer = await proxy.ask(f"GET http://{host}/latest HTTP/1.1\r\nHost: x\r\n".encode() + CLOSE)
            refused(answer, 403, "169.254.169.254", "no setting allows it")


async def test_a_name_that_changes_between_check_and_connect() -> None:
    names = Names()
    names.changes("site.test", ["127.0.0.2"], ["127.0.0.3"])
    async with web_site(ok(b"first"), host="127.0.0.2") as first:
        server = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.3", first.port)
        async with running(f"site.test:{first.port}", names=names) as proxy:
            answer = await proxy.ask(
                f"GET http://site.test:{first.port}/ HTTP/1.1\r\nHost: x\r\n".encode() + CLOSE
            )
        server.close()
        await server.wait_closed()
    assert body_of(answer) == b"first"
    assert names.asked == ["site.test"]


async def test_a_name_that_turns_private_is_refused_from_then_on() -> None:
    import ipaddress

    names = Names()
    names.changes("site.test", ["127.0.0.2"], ["127.0.0.3"])
    async with (
        web_site(ok(b"first"), host="127.0.0.2") as site,
        running(f"site.test:{site.port}", names=names, private=[ipaddress.ip_network("127.0.0.2")]) as proxy,
    ):
        request = f"GET http://site.test:{site.port}/ HTTP/1.1\r\nHost: x\r\n".encode()
        # The second over the same connection: it is looked at anew.
        answer = await proxy.ask(request + b"\r\n" + request + CLOSE)
    first, second = answer.split(b"HTTP/1.1 ")[1:]
    assert first.startswith(b"200")
    assert second.startswith(b"403")
    assert b"127.0.0.3, which is private" in second


async def test_a_redirect_to_another_host_is_a_request_like_any_other() -> None:
    moved = b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/latest/\r\nContent-Length: 0\r\n\r\n"
    async with (
        web_site(moved) as site,
        running(f"site.test:{site.port}", "169.254.169.254", names=Names(site_test=["127.0.0.1"])) as proxy,
    ):
        answer = await proxy.ask(
            f"GET http://site.test:{site.port}/ HTTP/1.1\r\nHost: x\r\n".encode() + CLOSE
        )
        there = headers_of(answer)["location"]
        refused(
            await proxy.ask(f"GET {there} HTTP/1.1\r\nHost: x\r\n".encode() + CLOSE), 403, "169.254.169.254"
        )


async def test_hosts_that_do_not_answer() -> None:
    async with running("site.test", "other.test", names=Names(site_test=["127.0.0.1"])) as proxy:
        gone = await proxy.ask(b"CONNECT site.test:443 HTTP/1.1\r\nHost: site.test\r\n\r\n")
        refused(gone, 502, "site.test:443 cannot be reached")
        unknown = await proxy.ask(b"GET http://other.test/ HTTP/1.1\r\nHost: x\r\n" + CLOSE)
        refused(unknown, 502, "other.test is not found")
    assert [entry.decision for entry in proxy.log.entries] == ["allowed", "allowed"]
    assert [entry.status for entry in proxy.log.entries] == [502, 502]


async def test_a_name_that_takes_too_long() -> None:
    class Slow(Names):
        async def lookup(self, host: str, port: int) -> list[str]:
            await asyncio.sleep(60)
            return []

    async with running("site.test", names=Slow(), timeouts=QUICK) as proxy:
        answer = await proxy.ask(b"CONNECT site.test:443 HTTP/1.1\r\nHost: site.test\r\n\r\n")
    refused(answer, 504, "site.test:443 does not answer within 0.5 s")


# -- tunnels


async def through(proxy: Any, where: str, named: str, context: ssl.SSLContext | None = None) -> bytes:
    """A page over TLS in a tunnel."""
    head, reader, writer = await proxy.connect(where)
    try:
        assert head == b"HTTP/1.1 200 Connection established\r\n\r\n"
        await writer.start_tls(context or client_tls(), server_hostname=named, ssl_handshake_timeout=WITHIN)
        writer.write(b"GET / HTTP/1.1\r\nHost: site.test\r\n\r\n")
        return bytes(await reader.read())
    finally:
        writer.close()


async def test_tls_passes_untouched() -> None:
    async with (
        web_site(ok(b"secret"), tls=server_tls("site.test")) as site,
        running(f"https://site.test:{site.port}", names=Names(site_test=["127.0.0.1"])) as proxy,
    ):
        assert body_of(await through(proxy, f"site.test:{site.port}", "site.test")) == b"secret"
        assert body_of(await through(proxy, f"SITE.test:{site.port}", "site.test")) == b"secret"
    assert site.requests[0].startswith(b"GET / HTTP/1.1")
    entry = proxy.log.entries[0]
    assert (entry.method, entry.scheme, entry.host, entry.status) == ("CONNECT", "https", "site.test", 200)
    assert entry.bytes_in > 500
    assert entry.bytes_out > 300


async def test_an_address_needs_no_server_name() -> None:
    async with (
        web_site(ok(b"secret"), tls=server_tls("127.0.0.1")) as site,
        running(f"127.0.0.1:{site.port}") as proxy,
    ):
        assert body_of(await through(proxy, f"127.0.0.1:{site.port}", "127.0.0.1")) == b"secret"
        with pytest.raises(OSError):
            await through(proxy, f"127.0.0.1:{site.port}", "other.test")
    assert len(site.requests) == 1


@pytest.mark.parametrize("named", ["other.test", "www.site.test", "site.tes", None])
async def test_tls_that_names_another_server_is_refused(named: str | None) -> None:
    context = client_tls()
    context.check_hostname = False
    async with (
        web_site(ok(b"secret"), tls=server_tls("site.test")) as site,
        running(f"site.test:{site.port}", names=Names(site_test=["127.0.0.1"])) as proxy,
    ):
        with pytest.raises(OSError) as error:
            await through(proxy, f"site.test:{site.port}", named or "127.0.0.1", context)
        assert "unrecognized" in str(error.value).lower()
    assert site.requests == []
    assert proxy.log.entries[0].decision == "refused"
    assert (named or "no server") in proxy.log.entries[0].reason


async def test_within_tls_nobody_looks() -> None:
    """What the check of the name does not promise: a host that stands for others may be asked for those."""
    async with (
        web_site(ok(b"another"), tls=server_tls("site.test")) as site,
        running(f"site.test:{site.port}", names=Names(site_test=["127.0.0.1"])) as proxy,
    ):
        _, reader, writer = await proxy.connect(f"site.test:{site.port}")
        await writer.start_tls(client_tls(), server_hostname="site.test", ssl_handshake_timeout=WITHIN)
        writer.write(b"GET / HTTP/1.1\r\nHost: behind.test\r\n\r\n")
        assert body_of(await reader.read()) == b"another"
        writer.close()
    assert headers_of(site.requests[0])["host"] == "behind.test"


@pytest.mark.parametrize("outer", ["site.test", "other.test"])
async def test_a_hello_within_a_hello_goes_by_the_outer_one(outer: str) -> None:
    hello = encrypted_client_hello(outer.encode())
    seen = bytearray()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.extend(await reader.read())

    async with (
        serving(listen) as site,
        running(f"site.test:{site.port}", names=Names(site_test=["127.0.0.1"])) as proxy,
    ):
        _, reader, writer = await proxy.connect(f"site.test:{site.port}")
        writer.write(hello)
        writer.write_eof()
        with contextlib.suppress(ConnectionResetError):
            await asyncio.wait_for(reader.read(), WITHIN)
        writer.close()
    assert seen == (hello if outer == "site.test" else b"")


@pytest.mark.parametrize(
    "first",
    [
        b"GET / HTTP/1.1\r\nHost: site.test\r\n\r\n",
        b"SSH-2.0-OpenSSH_9\r\n",
        b"EHLO site.test\r\n",
        b"\x16\x03\x01\x00\x05hello",
        b"\x00" * 100,
        b"CONNECT 127.0.0.1:22 HTTP/1.1\r\n\r\n",
    ],
)
@pytest.mark.parametrize("together", [True, False])
async def test_nothing_but_tls_passes(first: bytes, together: bool) -> None:
    seen = bytearray()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.extend(await reader.read())

    async with (
        serving(listen) as site,
        running(f"site.test:{site.port}", names=Names(site_test=["127.0.0.1"])) as proxy,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        connect = f"CONNECT site.test:{site.port} HTTP/1.1\r\nHost: site.test\r\n\r\n".encode()
        writer.write(connect + first if together else connect)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        if not together:
            writer.write(first)
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
    assert seen == b""
    assert "nothing but TLS may go through" in proxy.log.entries[0].reason


async def test_a_tunnel_in_which_nothing_is_said() -> None:
    async with (
        web_site(tls=server_tls("site.test")) as site,
        running(f"site.test:{site.port}", names=Names(site_test=["127.0.0.1"]), timeouts=QUICK) as proxy,
    ):
        for start in (b"", b"\x16\x03\x01\x02"):
            _, reader, writer = await proxy.connect(f"site.test:{site.port}")
            writer.write(start)
            began = time.monotonic()
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
            assert QUICK.head - 0.1 < time.monotonic() - began < 5
            writer.close()


async def test_a_hello_in_pieces() -> None:
    """TLS clients may send as they like: a byte at a time."""
    async with (
        web_site(ok(b"secret"), tls=server_tls("site.test")) as site,
        running(f"site.test:{site.port}", names=Names(site_test=["127.0.0.1"])) as proxy,
    ):
        _, reader, writer = await proxy.connect(f"site.test:{site.port}")
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = client_tls().wrap_bio(incoming, outgoing, server_hostname="site.test")
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                for byte in outgoing.read():
                    writer.write(bytes([byte]))
                    await asyncio.sleep(0)
                incoming.write(await reader.read(1000))
        writer.close()


# -- what is no request to a proxy


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/index.html",
        "*",
        "site.test",
        "site.test:80",
        "//site.test/",
        "http:/site.test",
        "http:site.test",
    ],
)
async def test_it_says_what_it_is(target: str) -> None:
    async with running("site.test") as proxy:
        answer = await proxy.ask(f"GET {target} HTTP/1.1\r\nHost: site.test\r\n".encode() + CLOSE)
    refused(answer, 400, "proxy", "HTTP_PROXY")


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("https://site.test/", "CONNECT"),
        ("ftp://site.test/", "only http and https go through"),
        ("file:///etc/passwd", "only http and https go through"),
        ("http://site.test/#part", "fragment"),
        ("http:///etc/passwd", "EGRESS_ALLOW"),
        ("http://", "EGRESS_ALLOW"),
        ("http://site.test:0/", "port"),
        ("http://site.test:/", "port"),
        ("http://site.test:99999/", "port"),
        ("http://a:b@site.test/", "EGRESS_ALLOW"),
        ("http://site.test\\@evil.test/", "EGRESS_ALLOW"),
    ],
)
async def test_urls_that_are_refused(url: str, word: str) -> None:
    async with running("site.test", names=Names(site_test=["127.0.0.1"])) as proxy:
        answer = await proxy.ask(f"GET {url} HTTP/1.1\r\nHost: site.test\r\n".encode() + CLOSE)
    assert status_of(answer) in (400, 403)
    assert word in reason_of(answer)


async def test_a_head_request_is_refused_without_a_body() -> None:
    async with running() as proxy:
        answer = await proxy.ask(b"HEAD http://site.test/ HTTP/1.1\r\nHost: x\r\n" + CLOSE)
    assert status_of(answer) == 403
    assert body_of(answer) == b""


async def test_a_refusal_is_read_although_the_body_was_not() -> None:
    body = bytes(2_000_000)
    async with running() as proxy:
        request = b"POST http://site.test/ HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
        refused(await proxy.ask(request + body), 403, "EGRESS_ALLOW is empty")


# -- virtual hosts


async def echo(request: ServiceRequest) -> ServiceResponse:
    said = f"{request.client.sandbox} {request.method} {request.target} {len(request.body)}"
    return ServiceResponse(200, said.encode(), [(b"Content-Type", b"text/plain"), (b"Content-Length", b"7")])


async def test_a_virtual_host_needs_no_rule_and_no_name() -> None:
    async with running(services={"search.gateway": echo}) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        for request, said in [
            (b"GET http://search.gateway/find?q=%41 HTTP/1.1\r\nHost: x\r\n\r\n", b"box-1 GET /find?q=%41 0"),
            (
                b"POST http://search.gateway HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
                b"box-1 POST / 3",
            ),
        ]:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            assert status_of(head) == 200
            assert await reader.readexactly(int(headers_of(head)["content-length"])) == said
        writer.close()
    assert proxy.names.asked == []
    assert [entry.status for entry in proxy.log.entries] == [200, 200]


@pytest.mark.parametrize(
    "request_line",
    ["CONNECT search.gateway:443", "CONNECT search.gateway:80", "GET http://search.gateway:81/"],
)
async def test_a_virtual_host_has_one_way_in(request_line: str) -> None:
    async with running("*.gateway.test", services={"search.gateway": echo}) as proxy:
        answer = await proxy.ask(f"{request_line} HTTP/1.1\r\nHost: x\r\n".encode() + CLOSE)
    refused(answer, 403, "http://search.gateway")


async def test_a_virtual_host_takes_a_mebibyte() -> None:
    async with running(services={"search.gateway": echo}) as proxy:
        head = b"POST http://search.gateway/ HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n" + CLOSE
        assert status_of(await proxy.ask(head % 2**20 + bytes(2**20))) == 200
        refused(await proxy.ask(head % (2**20 + 1) + bytes(2**20 + 1)), 413, "search.gateway", "1,048,576")


async def test_a_virtual_host_that_fails() -> None:
    async def fails(request: ServiceRequest) -> ServiceResponse:
        raise ZeroDivisionError("nobody's business")

    async def slow(request: ServiceRequest) -> ServiceResponse:
        await asyncio.sleep(60)
        raise AssertionError

    services = {"a.gateway": fails, "b.gateway": slow}
    async with running(services=services, limits=EgressLimits(seconds=0.2)) as proxy:
        answer = await proxy.ask(b"GET http://a.gateway/ HTTP/1.1\r\nHost: x\r\n" + CLOSE)
        refused(answer, 500, "a.gateway failed")
        refused(
            await proxy.ask(b"GET http://b.gateway/ HTTP/1.1\r\nHost: x\r\n" + CLOSE), 504, "EGRESS_SECONDS"
        )


async def test_a_virtual_host_and_100_continue() -> None:
    async with running(services={"a.gateway": echo}) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(
            b"POST http://a.gateway HTTP/1.1\r\nHost:\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
        )
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
        writer.write(b"abc")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        writer.close()


# -- limits


async def test_requests_a_minute() -> None:
    async with (
        web_site() as site,
        running(
            f"site.test:{site.port}", names=Names(site_test=["127.0.0.1"]), limits=EgressLimits(rate=3)
        ) as proxy,
    ):
        request = f"GET http://site.test:{site.port}/ HTTP/1.1\r\nHost: x\r\n".encode() + CLOSE
        assert [status_of(await proxy.ask(request)) for _ in range(3)] == [200] * 3
        refused(await proxy.ask(request), 429, "site.test is refused for", "EGRESS_RATE allows 3")
        refused(
            await proxy.ask(b"CONNECT evil.test:443 HTTP/1.1\r\nHost: x\r\n\r\n"),
            429,
            "evil.test",
            "EGRESS_RATE",
        )
        refused(await proxy.ask(b"nonsense\r\n\r\n"), 429, "EGRESS_RATE")
    # A program that goes on asking does not fill the log, either.
    assert [entry.status for entry in proxy.log.entries] == [200, 200, 200, 429]


async def test_connections_at_once() -> None:
    async with (
        web_site() as site,
        running(
            f"site.test:{site.port}", names=Names(site_test=["127.0.0.1"]), limits=EgressLimits(connections=2)
        ) as proxy,
    ):
        held = [await asyncio.open_connection("127.0.0.1", proxy.port) for _ in range(2)]
        await asyncio.sleep(0.05)
        request = f"GET http://site.test:{site.port}/ HTTP/1.1\r\nHost: x\r\n".encode() + CLOSE
        refused(await proxy.ask(request), 429, "2 connections")
        for _, writer in held:
            writer.close()
        await asyncio.sleep(0.05)
        assert status_of(await proxy.ask(request)) == 200
        assert proxy.client.limits.open == 0


# -- slow and dead programs


async def test_a_head_that_never_ends_in_time() -> None:
    async with running(timeouts=QUICK) as proxy:
        for start in (b"", b"GET http://site.test/ HTTP/1.1\r\nHost: x\r\n"):
            began = time.monotonic()
            refused(await proxy.ask(start), 408, "0.4 s")
            assert QUICK.head - 0.1 < time.monotonic() - began < 5


async def test_a_head_that_trickles() -> None:
    async with running(timeouts=QUICK) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        began = time.monotonic()

        async def trickle() -> None:
            while True:
                writer.write(b"X-A: b\r\n")
                await asyncio.sleep(0.02)

        writer.write(b"GET http://site.test/ HTTP/1.1\r\n")
        task = asyncio.create_task(trickle())
        assert status_of(await reader.readuntil(b"\r\n\r\n")) == 408
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        writer.close()
        assert time.monotonic() - began < 5


async def test_a_head_without_end() -> None:
    async with running() as proxy:
        for endless in (
            b"GET http://site.test/" + b"a" * 70_000,
            b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 12_000,
        ):
            answer = await proxy.ask(endless)
            assert status_of(answer) == 431
            assert b"65,536" in answer


async def test_programs_that_hang_up() -> None:
    async with (
        web_site() as site,
        running(f"site.test:{site.port}", names=Names(site_test=["127.0.0.1"])) as proxy,
    ):
        for start in (
            b"",
            b"GET",
            b"GET http://site.test/ HTTP/1.1\r\nHost",
            b"CONNECT site.test:%d HTTP/1.1\r\nHost: x\r\n\r\n" % site.port,
        ):
            _, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            writer.write(start)
            await writer.drain()
            writer.transport.abort()


async def test_an_idle_connection_is_closed_without_a_word() -> None:
    async with (
        web_site() as site,
        running(f"site.test:{site.port}", names=Names(site_test=["127.0.0.1"]), timeouts=QUICK) as proxy,
    ):
        request = f"GET http://site.test:{site.port}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode()
        answer = await proxy.ask(request)
    assert answer.count(b"HTTP/1.1") == 1
    assert body_of(answer) == b"hello"


async def test_cancelling_closes_one_that_was_answered_and_still_sends() -> None:
    """Its answer is out, and it is read on so that no reset takes that away: then the gateway closes."""
    there, here = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=here)
    finishing = asyncio.create_task(Stream(reader, writer).finish(60))
    await asyncio.sleep(0.05)
    finishing.cancel()
    await asyncio.gather(finishing, return_exceptions=True)
    assert finishing.cancelled()
    assert writer.is_closing()
    await asyncio.sleep(0.05)
    there.settimeout(5)
    with pytest.raises(OSError):  # closed: a program that still sends is told so
        there.sendall(b"x")
    there.close()


async def test_cancelling_closes_everything() -> None:
    """The gateway goes away: so does every connection, at once."""
    from libs.gateway.limits import ClientLimits
    from libs.gateway.proxy import Client, Proxy
    from libs.gateway.rules import Rules
    from tests.unit.gateway_loopback import Log, nothing_left

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with nothing_left(), serving(hold) as site:
        names = Names(site_test=["127.0.0.1"])
        proxy = Proxy(
            rules=Rules.parse([f"site.test:{site.port}"]),
            resolve=names.resolve,
            log=Log(),
            timeouts=Timeouts(),
        )  # type: ignore[arg-type]
        client = Client("box-1", "", ClientLimits())
        tasks: list[asyncio.Task[None]] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            tasks.append(asyncio.current_task())  # type: ignore[arg-type]
            try:
                await proxy.serve(reader, writer, client)
            except asyncio.CancelledError:
                assert writer.is_closing()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        held = []
        for start in (
            b"",
            b"GET http://site.test:%d/ HTTP/1.1\r\nHost: x\r\n\r\n" % site.port,
            b"POST http://site.test:%d/ HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nab" % site.port,
            b"CONNECT site.test:%d HTTP/1.1\r\nHost: x\r\n\r\n" % site.port,
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(start)
            held.append((reader, writer))
        await asyncio.sleep(0.2)
        assert len(tasks) == 4
        began = time.monotonic()
        for task in tasks:
            task.cancel()
        for reader, writer in held:
            with contextlib.suppress(ConnectionResetError):
                await asyncio.wait_for(reader.read(), 2)
            writer.close()
        assert time.monotonic() - began < 2
        assert client.limits.open == 0
        server.close()
        await server.wait_closed()
