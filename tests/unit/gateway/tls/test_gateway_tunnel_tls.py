"""A tunnel carries TLS that names the host it was opened for, and nothing else."""

from __future__ import annotations

import asyncio
import ssl
import time

import pytest

from tests.servers.gateway_loopback import (
    QUICK,
    WITHIN,
    Running,
    client_tls,
    reached,
    running,
    server_tls,
    to_the_end,
    web_site,
)
from tests.servers.http_messages import body_of, headers_of, ok, tunnel
from tests.unit.gateway.tls.test_gateway_client_hello import encrypted_client_hello


async def through(proxy: Running, where: str, named: str, context: ssl.SSLContext | None = None) -> bytes:
    """Get a page over TLS in a tunnel; the Host header names another host than the tunnel."""
    head, reader, writer = await proxy.connect(where)
    try:
        assert head == b"HTTP/1.1 200 Connection established\r\n\r\n"
        await writer.start_tls(context or client_tls(), server_hostname=named, ssl_handshake_timeout=WITHIN)
        writer.write(b"GET / HTTP/1.1\r\nHost: behind.test\r\n\r\n")
        return await reader.read()
    finally:
        writer.close()


async def test_requests_in_tls_are_not_checked() -> None:
    """The gateway cannot see requests in TLS: a host that serves other names can be asked for those."""
    async with reached(ok(b"secret"), site_tls=server_tls("site.test")) as (site, proxy):
        assert body_of(await through(proxy, site.where, "site.test")) == b"secret"
        assert body_of(await through(proxy, f"SITE.test:{site.port}", "site.test")) == b"secret"
    assert headers_of(site.requests[0])["host"] == "behind.test"
    entry = proxy.log.entries[0]
    assert (entry.method, entry.scheme, entry.host, entry.status) == ("CONNECT", "https", "site.test", 200)
    assert entry.bytes_in > 500
    assert entry.bytes_out > 300


async def test_address_needs_no_server_name() -> None:
    async with (
        web_site(ok(b"secret"), tls=server_tls("127.0.0.1")) as site,
        running(f"127.0.0.1:{site.port}") as proxy,
    ):
        assert body_of(await through(proxy, f"127.0.0.1:{site.port}", "127.0.0.1")) == b"secret"
        with pytest.raises(OSError):
            await through(proxy, f"127.0.0.1:{site.port}", "other.test")
    assert len(site.requests) == 1


@pytest.mark.parametrize("named", ["other.test", "www.site.test", None])
async def test_tls_that_names_another_server_is_refused(named: str | None) -> None:
    context = client_tls()
    context.check_hostname = False
    async with reached(site_tls=server_tls("site.test")) as (site, proxy):
        with pytest.raises(OSError, match=r"(?i)unrecognized"):
            await through(proxy, site.where, named or "127.0.0.1", context)
    assert site.requests == []
    assert proxy.log.entries[0].decision == "refused"
    assert (named or "no server") in proxy.log.entries[0].reason


@pytest.mark.parametrize("outer", ["site.test", "other.test"])
async def test_encrypted_client_hello_is_checked_by_its_outer_name(outer: str) -> None:
    hello = encrypted_client_hello(outer.encode())
    seen = bytearray()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.extend(await reader.read())

    async with reached(handler=listen) as (site, proxy):
        _, reader, writer = await proxy.connect(site.where)
        writer.write(hello)
        writer.write_eof()
        await to_the_end(reader)
        writer.close()
    assert seen == (hello if outer == "site.test" else b"")


@pytest.mark.parametrize(
    ("first", "together"),
    [(b"GET / HTTP/1.1\r\nHost: site.test\r\n\r\n", True), (b"SSH-2.0-OpenSSH_9\r\n", False)],
)
async def test_only_tls_passes(first: bytes, together: bool) -> None:
    seen = bytearray()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.extend(await reader.read())

    async with reached(handler=listen) as (site, proxy):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(tunnel(site.where) + first * together)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        if not together:
            writer.write(first)
        assert await to_the_end(reader) == b""
        writer.close()
    assert seen == b""
    assert "nothing but TLS may go through" in proxy.log.entries[0].reason


async def test_tunnel_without_a_hello_is_closed() -> None:
    async with reached(timeouts=QUICK) as (site, proxy):
        _, reader, writer = await proxy.connect(site.where)
        writer.write(b"\x16\x03\x01\x02")
        began = time.monotonic()
        assert await to_the_end(reader) == b""
        assert QUICK.head - 0.1 < time.monotonic() - began < 5
        writer.close()
