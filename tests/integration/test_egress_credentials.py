"""Secrets that are added on the way out: real programs through the proxy to TLS servers on loopback (G2)."""

from __future__ import annotations

import asyncio
import gzip
import json
import ssl
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import httpx
import pytest
from cryptography import x509

from agent.config import load_settings
from agent.egress import REQUESTS, build_proxy, credentials, egress_limits, placeholders
from libs.gateway.addresses import Address
from libs.gateway.authority import Authority
from libs.gateway.credentials import CredentialRule, Credentials, placeholder
from libs.gateway.limits import ClientLimits
from libs.gateway.proxy import Client, Proxy
from libs.gateway.redaction import SecretFilter
from libs.gateway.rules import Rules

TOKEN = "ghp_4f9XqT7bZuAb3dEfGhIjKl"
RAW = TOKEN.encode()
STANDS = placeholder("GITHUB_TOKEN")
API, OTHER, DOOR = "api.example.test", "other.example.test", "door.example.test"
WRONG, EXPIRED, UNKNOWN = "wrong.example.test", "expired.example.test", "unknown.example.test"
WITH_CREDENTIAL = (API, DOOR, WRONG, EXPIRED, UNKNOWN)

Answer = Callable[[bytes], list[bytes]]


def plain(body: bytes, *headers: str, status: str = "200 OK") -> list[bytes]:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers, "", ""]
    return ["\r\n".join(lines).encode(), body]


def chunked(*pieces: bytes) -> list[bytes]:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    return [
        head,
        *(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces),
        b"0\r\nX-Sum: " + RAW + b"\r\n\r\n",
    ]


ANSWERS: dict[str, Answer] = {
    "/": lambda head: plain(head, "Content-Type: text/plain"),
    "/headers": lambda _: plain(b"", f"X-Echo: Bearer {TOKEN}", status=f"200 Hello {TOKEN}"),
    "/gzip": lambda _: plain(gzip.compress(b"<" + RAW + b">"), "Content-Encoding: gzip"),
    "/deflate": lambda _: plain(zlib.compress(b"<" + RAW + b">"), "Content-Encoding: deflate"),
    "/chunked": lambda _: chunked(b"<" + RAW[:5], RAW[5:9], RAW[9:] + b">"),
    "/split": lambda _: [*plain(b"<" + RAW + b">")[:1], b"<" + RAW[:7], RAW[7:], b">"],
    "/encoded": lambda _: plain(b"<" + RAW.hex().encode() + b">"),
    "/br": lambda _: plain(b"<" + RAW + b">", "Content-Encoding: br"),
    "/bomb": lambda _: plain(gzip.compress(bytes(64 << 20)), "Content-Encoding: gzip"),
    "/redirect": lambda _: plain(b"", f"Location: https://{OTHER}/", status="302 Found"),
    "/long": lambda _: plain(bytes(range(256)) * 20_000),
}


def this_task() -> asyncio.Task[None]:
    task = asyncio.current_task()
    assert task is not None
    return task


@dataclass
class Hosts:
    """Servers on loopback, one for each host, that keep what they were asked."""

    seen: list[tuple[str, bytes]] = field(default_factory=list)
    ports: dict[tuple[str, int], int] = field(default_factory=dict)
    servers: list[asyncio.Server] = field(default_factory=list)
    serving: set[asyncio.Task[None]] = field(default_factory=set)

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.serving.add(this_task())
            with suppress(OSError, asyncio.IncompleteReadError):
                head = await reader.readuntil(b"\r\n\r\n")
                body = b""
                if b"\r\nexpect: 100-continue\r\n" in head.lower():
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                for line in head.split(b"\r\n"):
                    if line.lower().startswith(b"content-length:"):
                        body = await reader.readexactly(int(line.split(b":")[1]))
                self.seen.append((host, head + body))
                path = head.split(b" ")[1].partition(b"?")[0].decode()
                for piece in ANSWERS[path](head + body):
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0.01)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
        self.servers.append(server)
        self.ports[host, port] = server.sockets[0].getsockname()[1]

    async def resolve(self, host: str, port: int) -> list[Address]:
        return [Address("127.0.0.1", self.ports[host, port])]

    async def close(self) -> None:
        for server in self.servers:
            server.close()
            await server.wait_closed()
        await asyncio.gather(*self.serving)

    def asked(self, host: str) -> bytes:
        """The one request that a host has got."""
        (request,) = [request for name, request in self.seen if name == host]
        return request


@dataclass
class World:
    """The proxy, and what programs inside know."""

    hosts: Hosts
    proxy: str
    bundle: Path
    """Certificates that programs inside trust."""
    public: Authority
    """The authority of the servers outside."""
    inside: Authority
    """That of the sandbox."""

    @property
    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.bundle))

    @property
    def http(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(proxy=self.proxy, verify=self.trust, trust_env=False, timeout=20)

    async def curl(self, *arguments: str) -> str:
        """What curl prints: head and body, and its errors."""
        process = await asyncio.create_subprocess_exec(
            *("curl", "-q", "-sS", "-i", "--max-time", "20", "--proxy", self.proxy),
            *("--cacert", str(self.bundle), *arguments),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={"PATH": "/usr/bin:/bin"},
        )
        printed, _ = await process.communicate()
        return printed.decode()


@asynccontextmanager
async def serving(proxy: Proxy, client: Client) -> AsyncIterator[str]:
    """The proxy on a port of loopback, as it is inside of a sandbox."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(this_task())
        await proxy.serve(reader, writer, client)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await server.wait_closed()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    public = Authority([*WITH_CREDENTIAL, OTHER])
    expired = Authority([EXPIRED], now=datetime.now(UTC) - timedelta(days=60))
    rules = [CredentialRule(host, "Authorization", "GITHUB_TOKEN", "Bearer {}") for host in WITH_CREDENTIAL]
    secrets = {"GITHUB_TOKEN": TOKEN}
    known = Credentials(rules, secrets, SecretFilter(secrets))
    inside = Authority(known.hosts)
    hosts = Hosts()
    for host in (API, OTHER):
        await hosts.start(host, 443, public.context_for(host))
    await hosts.start(API, 80, None)
    await hosts.start(DOOR, 8443, public.context_for(DOOR))
    await hosts.start(WRONG, 443, public.context_for(OTHER))
    await hosts.start(EXPIRED, 443, expired.context_for(EXPIRED))
    await hosts.start(UNKNOWN, 443, Authority([UNKNOWN]).context_for(UNKNOWN))
    bundle = tmp_path / "trusted.pem"
    bundle.write_bytes(inside.certificate_pem + public.certificate_pem)
    trusted = (public.certificate_pem + expired.certificate_pem).decode()
    allow = [API, f"https://{DOOR}:8443", *(f"https://{host}" for host in (OTHER, WRONG, EXPIRED, UNKNOWN))]
    proxy = Proxy(
        rules=Rules.parse(allow),
        resolve=hosts.resolve,
        credentials=known,
        tls=ssl.create_default_context(cadata=trusted),
    )
    client = Client("sandbox-1", "thread-1", ClientLimits(), inside)
    async with serving(proxy, client) as url:
        yield World(hosts, url, bundle, public, inside)
    await hosts.close()


class TestWhatLeaves:
    @pytest.mark.parametrize("given", [[], ["-H", f"Authorization: Bearer {STANDS}"], ["-u", "me:wrong"]])
    async def test_the_header_is_added_whatever_was_there(self, world: World, given: list[str]) -> None:
        printed = await world.curl(*given, f"https://{API}/")
        asked = world.hosts.asked(API)
        assert asked.lower().count(b"authorization:") == 1
        assert f"\r\nAuthorization: Bearer {TOKEN}\r\n".encode() in asked
        assert "Authorization: Bearer [REDACTED]" in printed
        assert TOKEN not in printed

    async def test_on_every_request_of_a_connection(self, world: World) -> None:
        async with world.http as http:
            for _ in range(3):
                assert (await http.get(f"https://{API}/")).status_code == 200
        assert [RAW in request for _, request in world.hosts.seen] == [True] * 3

    async def test_on_another_port_that_is_allowed(self, world: World) -> None:
        assert "200" in await world.curl(f"https://{DOOR}:8443/")
        assert RAW in world.hosts.asked(DOOR)

    async def test_naming_it_in_connection_does_not_take_it_away(self, world: World) -> None:
        await world.curl("-H", "Connection: close, authorization, x-a", "-H", "X-A: 1", f"https://{API}/")
        asked = world.hosts.asked(API)
        assert RAW in asked
        assert b"x-a" not in asked.lower()

    async def test_a_placeholder_elsewhere_stays_one(self, world: World) -> None:
        await world.curl("-H", f"X-Key: {STANDS}", "-d", f"token={STANDS}", f"https://{API}/?t={STANDS}")
        asked = world.hosts.asked(API)
        assert f"GET /?t={STANDS} ".encode() in asked or f"POST /?t={STANDS} ".encode() in asked
        assert f"X-Key: {STANDS}".encode() in asked
        assert asked.endswith(f"token={STANDS}".encode())
        assert asked.count(RAW) == 1

    async def test_nothing_is_added_by_http(self, world: World) -> None:
        await world.curl("-H", f"Authorization: Bearer {STANDS}", f"http://{API}/")
        asked = world.hosts.asked(API)
        assert f"Authorization: Bearer {STANDS}".encode() in asked
        assert RAW not in asked

    async def test_nor_for_another_host(self, world: World) -> None:
        await world.curl("-H", f"Authorization: Bearer {STANDS}", f"https://{OTHER}/?t={STANDS}")
        asked = world.hosts.asked(OTHER)
        assert f"Authorization: Bearer {STANDS}".encode() in asked
        assert RAW not in asked

    async def test_a_redirect_to_another_host_loses_it(self, world: World) -> None:
        await world.curl("-L", "--location-trusted", "-u", f"me:{STANDS}", f"https://{API}/redirect")
        assert RAW in world.hosts.asked(API)
        there = world.hosts.asked(OTHER)
        assert RAW not in there
        assert b"authorization: basic" in there.lower()

    async def test_what_makes_answers_hard_to_search_is_not_asked_for(self, world: World) -> None:
        await world.curl("--compressed", "-r", "3-9", "-H", "If-Range: x", f"https://{API}/")
        asked = world.hosts.asked(API).lower()
        assert b"range" not in asked
        assert asked.count(b"accept-encoding: identity\r\n") == asked.count(b"accept-encoding") == 1

    async def test_a_large_body_goes_out_whole(self, world: World, tmp_path: Path) -> None:
        (tmp_path / "body").write_bytes(bytes(range(256)) * 8_000)
        printed = await world.curl(
            *("-H", "Expect: 100-continue", "--data-binary", f"@{tmp_path}/body", "-o", "/dev/null"),
            *("-w", "%{http_code}", f"https://{API}/headers"),
        )
        assert printed == "200"
        assert world.hosts.asked(API).endswith(bytes(range(256)) * 8_000)


class TestWhatComesBack:
    @pytest.mark.parametrize("path", ["/gzip", "/deflate", "/chunked", "/split", "/encoded"])
    async def test_an_echo_in_the_body(self, world: World, path: str) -> None:
        async with world.http as http:
            answer = await http.get(f"https://{API}{path}")
        assert (answer.status_code, answer.content) == (200, b"<[REDACTED]>")
        assert "content-encoding" not in answer.headers

    async def test_an_echo_in_the_head(self, world: World) -> None:
        printed = await world.curl(f"https://{API}/headers")
        assert "HTTP/1.1 200 Hello [REDACTED]\r\n" in printed
        assert "X-Echo: Bearer [REDACTED]\r\n" in printed

    async def test_raw_bytes_as_they_go_inside(self, world: World) -> None:
        for path in ("/chunked", "/gzip", "/headers"):
            printed = await world.curl("--raw", f"https://{API}{path}")
            assert TOKEN not in printed
            assert "[REDACTED]" in printed

    async def test_what_holds_no_secret_is_whole(self, world: World) -> None:
        async with world.http as http:
            assert (await http.get(f"https://{API}/long")).content == bytes(range(256)) * 20_000

    async def test_head(self, world: World) -> None:
        printed = await world.curl("-I", f"https://{API}/headers")
        assert "HTTP/1.1 200 Hello [REDACTED]\r\n" in printed

    async def test_a_coding_that_cannot_be_searched(self, world: World) -> None:
        printed = await world.curl(f"https://{API}/br")
        assert f"502 {API}: the answer is encoded as br, which was not asked for" in printed
        assert TOKEN not in printed

    async def test_a_bomb_is_cut_off(self, world: World) -> None:
        printed = await world.curl("-o", "/dev/null", "-w", "%{size_download}", f"https://{API}/bomb")
        assert "curl: (" in printed
        assert int(printed.split()[-1]) < 20 << 20

    async def test_another_host_is_not_looked_into(self, world: World) -> None:
        """Nothing but the bytes of the two ends passes, so what it says is between them."""
        assert f"Bearer {TOKEN}" in await world.curl(f"https://{OTHER}/headers")


class TestWhoIsWho:
    @pytest.mark.parametrize(
        ("host", "why"),
        [(WRONG, "Hostname mismatch"), (EXPIRED, "certificate has expired"), (UNKNOWN, "unable to get")],
    )
    async def test_a_wrong_certificate_outside_is_said_and_gets_no_secret(
        self, world: World, host: str, why: str
    ) -> None:
        async with world.http as http:
            with pytest.raises(httpx.ProxyError, match=f"502 {host}:443 shows a certificate .*{why}"):
                await http.get(f"https://{host}/")
        assert world.hosts.seen == []

    async def peer(self, world: World, host: str) -> bytes:
        """The certificate that a program inside is shown for a host."""
        proxy = httpx.URL(world.proxy)
        reader, writer = await asyncio.open_connection(proxy.host, proxy.port)
        writer.write(f"CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n".encode())
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        await writer.start_tls(world.trust, server_hostname=host)
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        assert isinstance(shown, bytes)
        return shown

    async def test_of_other_hosts_a_program_sees_the_certificate_itself(self, world: World) -> None:
        shown = x509.load_der_x509_certificate(await self.peer(world, OTHER))
        shown.verify_directly_issued_by(x509.load_pem_x509_certificate(world.public.certificate_pem))
        direct = ssl.create_default_context(cadata=world.public.certificate_pem.decode())
        port = world.hosts.ports[OTHER, 443]
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=direct, server_hostname=OTHER)
        there = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        assert there == await self.peer(world, OTHER)

    async def test_of_one_with_a_credential_that_of_its_own_authority(self, world: World) -> None:
        shown = x509.load_der_x509_certificate(await self.peer(world, API))
        shown.verify_directly_issued_by(x509.load_pem_x509_certificate(world.inside.certificate_pem))
        assert ip_address("127.0.0.1") not in shown.extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        ).value.get_values_for_type(x509.IPAddress)

    async def test_who_trusts_the_public_alone_notices(self, world: World) -> None:
        world.bundle.write_bytes(world.public.certificate_pem)
        assert "SSL certificate problem" in await world.curl(f"https://{API}/")
        assert world.hosts.seen == []

    @pytest.mark.parametrize("named", [OTHER, f"{API}:444", f"{API}.", "api.example.test@other.example.test"])
    async def test_another_host_in_the_tunnel_is_misdirected(self, world: World, named: str) -> None:
        printed = await world.curl("-H", f"Host: {named}", f"https://{API}/")
        assert f" 421 {API} " in printed
        assert world.hosts.seen == []

    async def test_a_web_socket_is_refused(self, world: World) -> None:
        printed = await world.curl(
            *("-H", "Connection: Upgrade", "-H", "Upgrade: websocket", "-H", "Sec-WebSocket-Version: 13"),
            *("-H", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", f"https://{API}/"),
        )
        assert f" 501 {API}: " in printed
        assert world.hosts.seen == []


async def test_what_the_settings_ask_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the variables of the environment to the log, with names that are looked up."""
    public = Authority(["localhost"])
    (tmp_path / "public.pem").write_bytes(public.certificate_pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "public.pem"))
    monkeypatch.setenv("MY_SECRET", TOKEN)
    monkeypatch.chdir(tmp_path)
    hosts = Hosts()
    await hosts.start("localhost", 443, public.context_for("localhost"))
    port = hosts.ports["localhost", 443]
    settings = load_settings(
        None,
        egress_allow=f"https://localhost:{port}",
        egress_credentials='{"localhost": {"header": "X-Api-Key", "secret": "MY_SECRET"}}',
        egress_private="127.0.0.0/8,::1",
    )
    assert placeholders(settings) == {"MY_SECRET": placeholder("MY_SECRET")}
    known = credentials(settings)
    assert known is not None
    inside = Authority(known.hosts)
    (tmp_path / "inside.pem").write_bytes(inside.certificate_pem)
    client = Client("sandbox-1", "thread-1", ClientLimits(egress_limits(settings)), inside)
    async with serving(build_proxy(settings), client) as url:
        world = World(hosts, url, tmp_path / "inside.pem", public, inside)
        first = await world.curl("-H", f"X-Key: {STANDS}", f"https://localhost:{port}/?q={TOKEN}")
        second = await world.curl(f"https://localhost:{port}/headers")
    await hosts.close()
    assert "X-Api-Key: [REDACTED]" in first
    assert STANDS in first
    assert f"X-Api-Key: {TOKEN}".encode() in hosts.seen[0][1]
    assert TOKEN not in first + second
    for _ in range(100):
        if REQUESTS.exists() and REQUESTS.read_text().count("\n") >= 2:
            break
        await asyncio.sleep(0.05)
    noted = REQUESTS.read_text()
    assert TOKEN not in noted
    assert {json.loads(line)["host"] for line in noted.splitlines()} == {"localhost"}


def test_without_credentials_there_are_none() -> None:
    settings = load_settings(None)
    assert credentials(settings) is None
    assert placeholders(settings) == {}
