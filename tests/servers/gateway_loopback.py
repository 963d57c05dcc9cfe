"""A proxy, sites and a name service on loopback for tests of the gateway, with real sockets and TLS."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import Any

import trustme

from libs.gateway.gateway_limits import ClientLimits, EgressLimits, Timeouts
from libs.gateway.gateway_protocol import Client
from libs.gateway.gateway_streams import SocketStream
from libs.gateway.proxy import Proxy
from libs.gateway.request_log import LogEntry
from libs.gateway.rules.addresses import Address, resolve_public
from libs.gateway.rules.allow_list import Rules
from tests.servers.http_messages import body_of, headers_of, ok, read_message, reason_of, status_of, tunnel

WITHIN = 30.0
"""Seconds that a test waits for an event."""
LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
PATIENT = Timeouts(head=8, connect=8, idle=8, keep_alive=8, linger=1)
"""For busy machines."""
QUICK = Timeouts(head=0.3, connect=0.3, idle=0.3, keep_alive=0.3, linger=0.2)
"""For tests of the time-outs."""

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Names:
    """A name service that records its lookups."""

    def __init__(self, **addresses: Sequence[str]) -> None:
        self.addresses: dict[str, list[Sequence[str]]] = {}
        self.asked: list[str] = []
        for name, listed in addresses.items():
            self.addresses[name.replace("_", ".")] = [listed]

    def __setitem__(self, name: str, addresses: Sequence[str]) -> None:
        self.addresses[name] = [addresses]

    def changes(self, name: str, *addresses: Sequence[str]) -> None:
        """Give one answer after the other; the last one stays."""
        self.addresses[name] = list(addresses)

    async def lookup(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        answers = self.addresses.get(host)
        if answers is None:
            raise OSError(-2, "Name or service not known")
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async def resolve(self, host: str, port: int, private: Sequence[Any] = LOOPBACK) -> list[Address]:
        return await resolve_public(host, port, private=private, lookup=self.lookup)


class Log:
    """A request log in memory."""

    def __init__(self) -> None:
        self.entries: list[LogEntry] = []

    def record(self, entry: LogEntry) -> None:
        self.entries.append(entry)


@dataclass
class Site:
    """A server and its requests."""

    port: int
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0

    @property
    def where(self) -> str:
        return f"site.test:{self.port}"


@cache
def authority() -> trustme.CA:
    return trustme.CA()


def server_tls(*hosts: str, not_after: datetime | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority().issue_cert(*hosts, not_after=not_after).configure_cert(context)
    return context


def client_tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority().configure_trust(context)
    return context


def open_files() -> list[str]:
    return sorted(file.name for file in Path("/proc/self/fd").iterdir())


async def until(holds: Callable[[], object]) -> None:
    """Wait until the condition holds."""
    deadline = asyncio.get_running_loop().time() + WITHIN
    while not holds():
        assert asyncio.get_running_loop().time() < deadline, "the condition did not become true in time"
        await asyncio.sleep(0.005)


@asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    """Check that no new task and no new socket is left afterwards."""
    before, files = asyncio.all_tasks(), open_files()
    yield
    before.add(asyncio.current_task())  # type: ignore[arg-type]  # may be another task in a fixture
    await until(lambda: not asyncio.all_tasks() - before)
    await until(lambda: len(open_files()) <= len(files))


@asynccontextmanager
async def serving(
    handler: Handler, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None, limit: int = 2**16
) -> AsyncIterator[Site]:
    """Start a server; a connection is closed when its handler returns."""
    site = Site(0)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        site.connections += 1
        try:
            await handler(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, host, 0, ssl=tls, limit=limit)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        server.close()
        await server.wait_closed()


@asynccontextmanager
async def web_site(
    answer: bytes | Callable[[bytes], bytes] = b"",
    *,
    host: str = "127.0.0.1",
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[Site]:
    """Start a server that records one request per connection and sends fixed bytes."""
    answer = answer or ok(b"hello")

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read_message(reader)
        site.requests.append(request)
        writer.write(answer(request) if callable(answer) else answer)
        await writer.drain()

    async with serving(handle, host=host, tls=tls, limit=2**24) as site:
        yield site


@dataclass
class Running:
    """A listening proxy and its parts."""

    port: int
    names: Names
    log: Log
    client: Client

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def ask(self, request: bytes, *, end: bool = False) -> bytes:
        """Send a request, and read until the proxy closes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=2**24)
        try:
            writer.write(request)
            if end:
                writer.write_eof()
            async with asyncio.timeout(WITHIN):
                return await reader.read()
        finally:
            writer.close()

    async def connect(
        self, where: str, *, limit: int = 2**16
    ) -> tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a tunnel; return the head of the answer and the streams."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=limit)
        writer.write(tunnel(where))
        async with asyncio.timeout(WITHIN):
            return await reader.readuntil(b"\r\n\r\n"), reader, writer


@asynccontextmanager
async def running(
    *allow: str,
    names: Names | None = None,
    limits: EgressLimits | None = None,
    timeouts: Timeouts = PATIENT,
    private: Sequence[Any] = LOOPBACK,
    certificates: Any = None,
    **policy: Any,
) -> AsyncIterator[Running]:
    """Start a proxy on loopback, and check that nothing is left afterwards."""
    names = names or Names(site_test=["127.0.0.1"])
    log = Log()
    client = Client("box-1", "thread-1", ClientLimits(limits), certificates)
    resolve = partial(names.resolve, private=private)
    proxy = Proxy(rules=Rules.parse(allow), resolve=resolve, log=log, timeouts=timeouts, **policy)  # type: ignore[arg-type]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await proxy.serve(SocketStream(reader, writer), client)
        assert writer.is_closing()

    async with nothing_left(), AsyncExitStack() as stack:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        stack.push_async_callback(server.wait_closed)
        stack.callback(server.close)
        yield Running(server.sockets[0].getsockname()[1], names, log, client)


@asynccontextmanager
async def reached(
    answer: bytes | Callable[[bytes], bytes] = b"",
    *,
    handler: Handler | None = None,
    site_tls: ssl.SSLContext | None = None,
    allow: Sequence[str] = (),
    **policy: Any,
) -> AsyncIterator[tuple[Site, Running]]:
    """Start `site.test`, which is allowed, and a proxy; `handler` replaces `answer`."""
    served = serving(handler, tls=site_tls, limit=2**18) if handler else web_site(answer, tls=site_tls)
    async with served as site, running(site.where, *allow, **policy) as proxy:
        yield site, proxy


async def to_the_end(reader: asyncio.StreamReader) -> bytes:
    """Read until the connection ends or breaks."""
    read = bytearray()
    with suppress(ConnectionResetError):
        async with asyncio.timeout(WITHIN):
            while data := await reader.read(2**20):
                read += data
    return bytes(read)


def refused(proxy: Running, answer: bytes, status: int, *words: str) -> None:
    """Check that reason, body and log contain the same line with all these words."""
    assert status_of(answer) == status, answer
    reason = reason_of(answer)
    assert body_of(answer).decode() == reason + "\n"
    assert reason == proxy.log.entries[-1].reason
    assert headers_of(answer)["connection"] == "close"
    assert [word for word in words if word not in reason] == []
