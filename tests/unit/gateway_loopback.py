"""A proxy, sites and names on loopback, for tests of the gateway: real sockets, real TLS, no name outside."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import trustme

from libs.gateway.addresses import Address, resolve_public
from libs.gateway.limits import ClientLimits, EgressLimits, Timeouts
from libs.gateway.proxy import Client, Proxy
from libs.gateway.request_log import LogEntry
from libs.gateway.rules import Rules

WITHIN = 10.0
LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
PATIENT = Timeouts(head=8, connect=8, idle=8, keep_alive=8, linger=1)
"""For a machine that is busy with something else."""
QUICK = Timeouts(head=0.4, connect=0.5, idle=0.5, keep_alive=0.5, linger=0.3)
CLOSE = b"Connection: close\r\n\r\n"

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Names:
    """A name service of a test's own. Counts what it is asked."""

    def __init__(self, **addresses: Sequence[str]) -> None:
        self.addresses: dict[str, list[Sequence[str]]] = {}
        self.asked: list[str] = []
        for name, listed in addresses.items():
            self.addresses[name.replace("_", ".")] = [listed]

    def __setitem__(self, name: str, addresses: Sequence[str]) -> None:
        self.addresses[name] = [addresses]

    def changes(self, name: str, *addresses: Sequence[str]) -> None:
        """Another answer each time, the last for good."""
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
    """What would be written down."""

    def __init__(self) -> None:
        self.entries: list[LogEntry] = []

    def record(self, entry: LogEntry) -> None:
        self.entries.append(entry)


@dataclass
class Site:
    """A server, and what it was sent."""

    port: int
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0


@cache
def authority() -> trustme.CA:
    return trustme.CA()


def server_tls(*hosts: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority().issue_cert(*hosts).configure_cert(context)
    return context


def client_tls(ca: trustme.CA | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    (ca or authority()).configure_trust(context)
    return context


def open_files() -> list[str]:
    return sorted(file.name for file in Path("/proc/self/fd").iterdir())


@asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    """Afterwards no task runs and no socket is open that did not before."""
    before, files = asyncio.all_tasks(), open_files()
    yield
    deadline = asyncio.get_running_loop().time() + WITHIN
    while left := asyncio.all_tasks() - before:
        assert asyncio.get_running_loop().time() < deadline, left
        await asyncio.sleep(0.005)
    for _ in range(200):
        if len(open_files()) <= len(files):
            return
        await asyncio.sleep(0.005)
    raise AssertionError(f"open: {sorted(set(open_files()) - set(files))}")


@asynccontextmanager
async def serving(
    handler: Handler, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None, limit: int = 2**16
) -> AsyncIterator[Site]:
    """A server, each connection of which is closed when its handler returns."""
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
    """A server that reads one request a connection, keeps it, and sends an answer, byte for byte."""
    answer = answer or ok(b"hello")

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read_message(reader)
        site.requests.append(request)
        writer.write(answer(request) if callable(answer) else answer)
        await writer.drain()

    async with serving(handle, host=host, tls=tls, limit=2**24) as site:
        yield site


async def read_message(reader: asyncio.StreamReader) -> bytes:
    """A head and its body, as they are."""
    head = await reader.readuntil(b"\r\n\r\n")
    lower = head.lower()
    if b"content-length:" in lower:
        return head + await reader.readexactly(int(lower.split(b"content-length:")[1].split(b"\r\n")[0]))
    if b"transfer-encoding:" in lower:
        return head + await reader.readuntil(b"0\r\n\r\n")
    return head


def ok(body: bytes, *headers: bytes) -> bytes:
    lines = [b"HTTP/1.1 200 OK", b"Content-Length: %d" % len(body), *headers, b"", b""]
    return b"\r\n".join(lines) + body


@dataclass
class Running:
    """A proxy that listens, and what it was made of."""

    port: int
    names: Names
    log: Log
    client: Client

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def ask(self, request: bytes, *, end: bool = False) -> bytes:
        """Send, and read until the proxy closes."""
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
        """Ask for a tunnel; the head of the answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=limit)
        writer.write(f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n\r\n".encode())
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
    ahead: int | None = None,
    **policy: Any,
) -> AsyncIterator[Running]:
    """A proxy on loopback. Afterwards nothing of it is left; `ahead`: bytes it writes before it waits."""
    names = names or Names()
    log = Log()
    client = Client("box-1", "thread-1", ClientLimits(limits), certificates)
    resolve = partial(names.resolve, private=private)
    proxy = Proxy(rules=Rules.parse(allow), resolve=resolve, log=log, timeouts=timeouts, **policy)  # type: ignore[arg-type]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(ahead)
        await proxy.serve(reader, writer, client)
        assert writer.is_closing()

    async with nothing_left(), AsyncExitStack() as stack:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        stack.push_async_callback(server.wait_closed)
        stack.callback(server.close)
        yield Running(server.sockets[0].getsockname()[1], names, log, client)


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def body_of(answer: bytes) -> bytes:
    return answer.partition(b"\r\n\r\n")[2]


def headers_of(message: bytes) -> Mapping[str, str]:
    lines = message.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")[1:]
    return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
