"""Each kind of bad input: what is said, inside and in the log alike, names the host and the setting."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections.abc import AsyncIterator

import pytest

from agent.config import SettingsError, load_settings
from libs.gateway.limits import EgressLimits
from tests.unit.gateway_loopback import (
    CLOSE,
    LOOPBACK,
    QUICK,
    Names,
    Running,
    headers_of,
    ok,
    running,
    serving,
    web_site,
)

HOST = "site.test"
POST = b"POST http://site.test:PORT/ HTTP/1.1\r\nHost: x\r\n"


def said(answer: bytes, proxy: Running, *named: str) -> None:
    """One line, that the program reads and that is written down, has all these names in it."""
    reason = answer.split(b"\r\n")[0].split(b" ", 2)[2].decode()
    assert answer.endswith(f"\r\n\r\n{reason}\n".encode())
    assert reason == proxy.log.entries[-1].reason
    for name in named:
        assert name in reason


def tunnel(where: str) -> bytes:
    return f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n\r\n".encode()


def page(host: str) -> bytes:
    return f"GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n".encode() + CLOSE


@contextlib.asynccontextmanager
async def a_site(**policy: object) -> AsyncIterator[tuple[Running, bytes]]:
    """A host that is allowed, and the beginning of a request for it."""
    async with (
        web_site() as site,
        running(f"{HOST}:{site.port}", names=Names(site_test=["127.0.0.1"]), **policy) as proxy,  # type: ignore[arg-type]
    ):
        yield proxy, POST.replace(b"PORT", b"%d" % site.port)


@pytest.mark.parametrize("request_bytes", [page("other.test"), tunnel("other.test:443")])
async def test_a_host_that_is_not_allowed(request_bytes: bytes) -> None:
    async with running(HOST) as proxy:
        said(await proxy.ask(request_bytes), proxy, "other.test", "EGRESS_ALLOW")


@pytest.mark.parametrize("request_bytes", [page(HOST), tunnel(f"{HOST}:443")])
async def test_an_empty_list(request_bytes: bytes) -> None:
    async with running() as proxy:
        said(await proxy.ask(request_bytes), proxy, HOST, "EGRESS_ALLOW is empty")


@pytest.mark.parametrize("entry", ["*", "*.com", "*.co.uk", "https://*.github.io", "*.com:8443"])
def test_a_wildcard_that_is_too_wide(entry: str) -> None:
    with pytest.raises(SettingsError) as error:
        load_settings(None, egress_allow=entry)
    assert str(error.value).startswith(f"EGRESS_ALLOW={entry}: ")


@pytest.mark.parametrize("address", ["10.0.0.1", "127.0.0.1", "169.254.1.1", "fd00::1", "::ffff:10.0.0.1"])
async def test_a_name_that_leads_to_a_private_address(address: str) -> None:
    async with running(HOST, names=Names(site_test=[address]), private=()) as proxy:
        for request in (page(HOST), tunnel(f"{HOST}:443")):
            said(await proxy.ask(request), proxy, HOST, "EGRESS_PRIVATE")


async def test_a_name_that_leads_elsewhere_the_next_time() -> None:
    names = Names()
    names.changes(HOST, ["127.0.0.1"], ["10.0.0.1"])
    async with web_site() as site, running(f"{HOST}:{site.port}", names=names) as proxy:
        assert (await proxy.ask(page(f"{HOST}:{site.port}"))).startswith(b"HTTP/1.1 200 ")
        said(await proxy.ask(page(f"{HOST}:{site.port}")), proxy, HOST, "EGRESS_PRIVATE")


@pytest.mark.parametrize(
    ("host", "named"),
    [
        ("[::1]", "::1"),
        ("[fe80::1]", "fe80::1"),
        ("[::ffff:10.0.0.1]", "10.0.0.1"),
        ("[::ffff:a00:1]", "10.0.0.1"),
        ("[64:ff9b::a00:1]", "64:ff9b::a00:1"),
    ],
)
async def test_ipv6_and_what_leads_through_it_to_ipv4(host: str, named: str) -> None:
    async with running(HOST) as proxy:
        said(await proxy.ask(page(host)), proxy, named, "EGRESS_ALLOW")
    async with running(f"[{named}]" if ":" in named else named, private=()) as proxy:
        said(await proxy.ask(page(host)), proxy, named, "EGRESS_PRIVATE")


@pytest.mark.parametrize("host", ["2130706433", "0177.0.0.1", "0x7f.1", "127.1", "017700000001"])
async def test_decimal_and_octal_addresses(host: str) -> None:
    async with running("127.0.0.1", private=LOOPBACK) as proxy:
        for request in (page(host), tunnel(f"{host}:443")):
            said(await proxy.ask(request), proxy, host, "EGRESS_ALLOW")


@pytest.mark.parametrize("there", ["169.254.169.254", "[fd00:ec2::254]", "[::ffff:169.254.169.254]"])
@pytest.mark.parametrize("allowed", [False, True])
async def test_a_redirect_to_metadata(there: str, allowed: bool) -> None:
    moved = f"HTTP/1.1 302 Found\r\nLocation: http://{there}/latest/\r\nContent-Length: 0\r\n\r\n".encode()
    shown = "169.254.169.254" if "169" in there else there.strip("[]")
    everything = [ipaddress.ip_network(text) for text in ("0.0.0.0/0", "::/0")]
    async with (
        web_site(moved) as site,
        running(
            f"{HOST}:{site.port}",
            *([f"[{shown}]" if ":" in shown else shown] if allowed else []),
            names=Names(site_test=["127.0.0.1"]),
            private=everything,
        ) as proxy,
    ):
        location = headers_of(await proxy.ask(page(f"{HOST}:{site.port}")))["location"]
        answer = await proxy.ask(f"GET {location} HTTP/1.1\r\nHost: x\r\n".encode() + CLOSE)
        said(answer, proxy, shown, "EGRESS_PRIVATE" if allowed else "EGRESS_ALLOW")


@pytest.mark.parametrize("port", ["22", "25", "80", "8443", "0", "65536", "99999999", "+443", "0x1bb", ""])
async def test_tunnels_to_odd_ports(port: str) -> None:
    async with running(f"https://{HOST}", names=Names(site_test=["127.0.0.1"])) as proxy:
        said(await proxy.ask(tunnel(f"{HOST}:{port}")), proxy, HOST, "EGRESS_ALLOW")


@pytest.mark.parametrize(
    "smuggled",
    [
        b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        b"Content-Length: 3\r\nContent-Length: 5\r\n\r\nabcde",
        b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"X: y\n\nGET http://evil.test/ HTTP/1.1\r\n\r\n",
        b"Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\nnot a number\r\n",
    ],
    ids=["CL.TE", "TE.TE", "CL.CL", "TE", "LF", "upgrade", "chunk"],
)
async def test_smuggled_requests(smuggled: bytes) -> None:
    async with a_site() as (proxy, start):
        answer = await proxy.ask(start + smuggled)
        said(answer, proxy, HOST, "EGRESS_ALLOW")


async def test_endless_headers() -> None:
    async with a_site() as (proxy, start):
        for endless in (b"X-A: b\r\n" * 20_000, b"X-A: " + b"b" * 100_000):
            answer = await proxy.ask(start + endless)
            said(answer, proxy, HOST, "65,536", "EGRESS_ALLOW")


async def test_endless_bodies() -> None:
    limits = EgressLimits(max_bytes=100_000)
    async with a_site(limits=limits) as (proxy, start):
        for endless in (
            b"Content-Length: 100001\r\n\r\n" + bytes(100_001),
            b"Transfer-Encoding: chunked\r\n\r\n" + (b"ff\r\n" + bytes(255) + b"\r\n") * 1_000,
        ):
            said(await proxy.ask(start + endless), proxy, HOST, "EGRESS_MAX_BYTES")
    async with (
        web_site(ok(bytes(100_001))) as site,
        running(f"{HOST}:{site.port}", names=Names(site_test=["127.0.0.1"]), limits=limits) as proxy,
    ):
        said(await proxy.ask(page(f"{HOST}:{site.port}")), proxy, HOST, "EGRESS_MAX_BYTES")


async def test_slow_heads() -> None:
    async with running(HOST, timeouts=QUICK) as proxy:
        answer = await proxy.ask(b"GET http://site.test/ HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        said(answer, proxy, HOST, "0.4 s", "EGRESS_ALLOW")


async def test_slow_bodies() -> None:
    """A byte now and then keeps nothing open for longer than may be."""

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with (
        serving(hold) as site,
        running(
            f"{HOST}:{site.port}", names=Names(site_test=["127.0.0.1"]), limits=EgressLimits(seconds=0.5)
        ) as proxy,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(POST.replace(b"PORT", b"%d" % site.port) + b"Content-Length: 1000\r\n\r\n")

        async def drip() -> None:
            while True:
                writer.write(b"x")
                await asyncio.sleep(0.05)

        dripping = asyncio.create_task(drip())
        answer = await asyncio.wait_for(reader.read(), 10)
        dripping.cancel()
        await asyncio.gather(dripping, return_exceptions=True)
        writer.close()
        said(answer, proxy, HOST, "EGRESS_SECONDS")


async def test_udp_by_way_of_the_proxy() -> None:
    """RFC 9298 and SOCKS 5 know how to ask for that; sockets of a sandbox lead nowhere by themselves."""
    async with a_site() as (proxy, start):
        masque = start.replace(b"POST", b"GET") + b"Connection: Upgrade\r\nUpgrade: connect-udp\r\n\r\n"
        said(await proxy.ask(masque), proxy, HOST, "connect-udp", "EGRESS_ALLOW")
        said(await proxy.ask(b"\x05\x01\x00"), proxy, "this is a proxy for HTTP", "EGRESS_ALLOW")


async def test_a_name_as_a_side_channel() -> None:
    """What is not allowed is not looked up: no name server hears of it."""
    async with running(HOST) as proxy:
        for request in (page("s3cret.evil.test"), tunnel("s3cret.evil.test:443")):
            said(await proxy.ask(request), proxy, "s3cret.evil.test", "EGRESS_ALLOW")
    assert proxy.names.asked == []
