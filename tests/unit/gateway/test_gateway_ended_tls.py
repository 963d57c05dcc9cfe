"""Tunnels to a host with a credential, whose TLS the gateway terminates."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from libs.gateway.credentials import CredentialRule, Credentials, placeholder
from libs.gateway.tls.authority import Authority
from libs.redaction import SecretFilter
from tests.servers.gateway_loopback import (
    QUICK,
    Handler,
    Names,
    Running,
    Site,
    client_tls,
    reached,
    refused,
    running,
    server_tls,
    to_the_end,
    web_site,
)
from tests.servers.http_messages import (
    body_of,
    headers_of,
    last,
    ok,
    read_message,
    status_of,
    tunnel,
)

STANDS = placeholder("TOKEN").encode()
SECRETS = {"TOKEN": "ghp_4f9XqT7bZuAb3dEfGh"}
CREDENTIALS = Credentials(
    [CredentialRule("site.test", "Authorization", "TOKEN", "Bearer {}")], SECRETS, SecretFilter(SECRETS)
)
INSIDE = Authority(["site.test"])
TRUST = ssl.create_default_context(cadata=INSIDE.certificate_pem.decode())
POLICY: dict[str, Any] = {"credentials": CREDENTIALS, "tls": client_tls()}


def ended(handler: Handler | None = None, *, tls: bool = True, **policy: Any) -> Any:
    """Start a host with a credential, which answers with the header it received, and the proxy before it."""
    return reached(
        lambda request: ok(headers_of(request)["authorization"].encode()),
        handler=handler,
        site_tls=server_tls("site.test") if tls else None,
        certificates=INSIDE,
        **POLICY,
        **policy,
    )


@asynccontextmanager
async def within(
    site: Site, proxy: Running, named: str = "site.test"
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Open a TLS connection through a tunnel that the gateway terminates."""
    head, reader, writer = await proxy.connect(site.where)
    try:
        assert head.startswith(b"HTTP/1.1 200"), head
        await writer.start_tls(TRUST, server_hostname=named)
        yield reader, writer
    finally:
        writer.close()


async def test_credential_is_added_to_each_request_and_redacted_in_the_answer() -> None:
    async with ended() as (site, proxy), within(site, proxy) as (reader, writer):
        for request in (
            b"GET /a?b HTTP/1.1\r\nAUTHORIZATION: Bearer " + STANDS + b"\r\nX-Key: " + STANDS,
            b"POST /c HTTP/1.1\r\nAuthorization: Basic eDp5\r\nContent-Length: 3",
        ):
            body = b"abc" if b"POST" in request else b""
            writer.write(request + b"\r\nHost: " + site.where.upper().encode() + b"\r\n\r\n" + body)
            assert b"Bearer [REDACTED]" in await reader.readuntil(b"0\r\n\r\n")
    for request in site.requests:
        assert request.lower().count(b"authorization:") == 1
        assert headers_of(request)["authorization"] == f"Bearer {SECRETS['TOKEN']}"
    assert site.requests[0].startswith(b"GET /a?b HTTP/1.1\r\n")
    assert headers_of(site.requests[0])["x-key"] == STANDS.decode()
    assert site.requests[1].endswith(b"\r\n\r\nabc")
    assert site.connections == 2
    assert [(entry.method, entry.scheme, entry.path, entry.status) for entry in proxy.log.entries] == [
        ("GET", "https", "/a", 200),
        ("POST", "https", "/c", 200),
        ("CONNECT", "https", "", 200),
    ]


async def test_nothing_is_added_over_http() -> None:
    async with reached(certificates=INSIDE, **POLICY) as (site, proxy):
        await proxy.ask(last(site.where, b"Authorization: Bearer " + STANDS))
    assert headers_of(site.requests[0])["authorization"] == f"Bearer {STANDS.decode()}"


async def test_other_hosts_keep_their_tls_and_get_no_credential() -> None:
    """Such as the target of a redirect. The program sees the host's own certificate."""
    names = Names(other_test=["127.0.0.1"])
    async with (
        web_site(tls=server_tls("other.test")) as site,
        running(f"other.test:{site.port}", names=names, certificates=INSIDE, **POLICY) as proxy,
    ):
        _, reader, writer = await proxy.connect(f"other.test:{site.port}")
        await writer.start_tls(client_tls(), server_hostname="other.test")
        writer.write(b"GET / HTTP/1.1\r\nHost: site.test\r\nAuthorization: Bearer " + STANDS + b"\r\n\r\n")
        assert status_of(await reader.read()) == 200
        writer.close()
    assert headers_of(site.requests[0])["authorization"] == f"Bearer {STANDS.decode()}"


@pytest.mark.parametrize(
    ("certificate", "tls", "why"),
    [
        (server_tls("other.test"), client_tls(), "Hostname mismatch"),
        (server_tls("site.test"), ssl.create_default_context(), "unable to get"),
        (server_tls("site.test", not_after=datetime.now(UTC)), client_tls(), "certificate has expired"),
    ],
)
async def test_host_with_a_wrong_certificate_gets_no_secret(
    certificate: ssl.SSLContext, tls: ssl.SSLContext, why: str
) -> None:
    policy = {"site_tls": certificate, "tls": tls, "certificates": INSIDE, "credentials": CREDENTIALS}
    async with reached(**policy) as (site, proxy), within(site, proxy) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nHost: " + site.where.encode() + b"\r\n\r\n")
        answer = await to_the_end(reader)
    assert f"502 {site.where} shows a certificate that is not trusted: {why}".encode() in answer
    assert site.requests == []


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: site.test:1\r\n\r\n", 421),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"CONNECT other.test:443 HTTP/1.1\r\nHost: site.test:PORT\r\n\r\n", 400),
        (b"GET /#a HTTP/1.1\r\nHost: site.test:PORT\r\n\r\n", 400),
        (b"GET / HTTP/1.1\nHost: site.test:PORT\n\n", 400),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 70_000, 431),
        (b"GET / HTTP/1.1\r\nHost: site.test:PORT\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n", 501),
    ],
)
async def test_refused_requests_in_a_tunnel(request_bytes: bytes, status: int) -> None:
    async with ended() as (site, proxy), within(site, proxy) as (reader, writer):
        writer.write(request_bytes.replace(b"PORT", b"%d" % site.port))
        answer = await to_the_end(reader)
    assert status_of(answer) == status
    assert b"site.test" in body_of(answer)
    assert site.requests == []


async def test_host_without_tls_is_an_error() -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-x\r\n")
        await reader.read()

    async with ended(greet, tls=False) as (site, proxy), within(site, proxy) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nHost: " + site.where.encode() + b"\r\n\r\n")
        answer = await to_the_end(reader)
    assert status_of(answer) == 502
    assert f"{site.where} agrees on no TLS".encode() in body_of(answer)


async def test_credential_needs_an_authority_and_an_allowed_host() -> None:
    async with running("site.test", **POLICY) as proxy:
        refused(proxy, await proxy.ask(tunnel("site.test:443")), 502, "EGRESS_CREDENTIALS")
    async with running(certificates=INSIDE, **POLICY) as proxy:
        refused(proxy, await proxy.ask(tunnel("site.test:443")), 403, "EGRESS_ALLOW is empty")


async def test_tls_for_another_server_is_refused() -> None:
    async with ended() as (site, proxy):
        with pytest.raises(ssl.SSLError, match=r"(?i)unrecognized"):
            async with within(site, proxy, "other.test"):
                pass


async def test_answer_that_cannot_be_decoded_is_cut_off() -> None:
    async def garbled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_message(reader)
        writer.write(ok(gzip.compress(b"hello") + b"garbage", b"Content-Encoding: gzip"))

    async with ended(garbled) as (site, proxy), within(site, proxy) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nHost: " + site.where.encode() + b"\r\n\r\n")
        assert not (await to_the_end(reader)).endswith(b"0\r\n\r\n")
    assert "is not encoded as gzip" in proxy.log.entries[0].reason


async def test_idle_tunnel_is_closed() -> None:
    async with ended(timeouts=QUICK) as (site, proxy):
        # Says nothing within TLS, and is closed without a word.
        async with within(site, proxy) as (reader, _):
            assert await asyncio.wait_for(reader.read(), 5) == b""
        # Never begins TLS at all, or stops within it.
        for start in (b"", b"\x16\x03\x01"):
            _, reader, writer = await proxy.connect(site.where)
            writer.write(start)
            assert await asyncio.wait_for(to_the_end(reader), 5) == b""
            writer.close()
