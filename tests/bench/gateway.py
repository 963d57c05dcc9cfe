"""The way out: first byte, 100 MB, 100 at once; beside a direct connection and a plain proxy."""

from __future__ import annotations

import asyncio
import os
import ssl
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import trustme
from docker.types import LogConfig

from libs.backends.docker import DockerExecutionBackend
from libs.gateway.addresses import Address
from libs.gateway.gateway import Gateway
from libs.gateway.limits import EgressLimits
from libs.gateway.proxy import Proxy
from libs.gateway.rules import Rules
from libs.sandbox.attach import AttachedTransport
from libs.sandbox.engine import connect
from libs.sandbox.strays import OWNER_LABEL, owner_label
from tests.bench.measure import Figure, interleaved, timed
from tests.bench.sandboxes import image

SIZE = 100_000_000
HOST = "bench.test"
_STALLED = 40
_TRIPS = {"http": 1, "https": 3}
"""Times that a program waits for the host: for the page; by https before for CONNECT and ServerHello too."""
_APART = 0.0007
"""Seconds that pass before each, while the program and the server are at work."""
_ECHO = "import os\nwhile data := os.read(0, 65536): os.write(1, data)"

_CLIENT = '''
import socket, ssl, time

def opened(port, proxy, secure):
    """A connection to the server, through a proxy where one is given, and what to ask for."""
    if proxy is None:
        sock, where = socket.create_connection(("127.0.0.1", port)), "/"
    else:
        sock, where = socket.create_connection(("127.0.0.1", proxy)), "http://bench.test:%d/" % port
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if secure:
        if proxy is not None:
            head = "CONNECT bench.test:%d HTTP/1.1\\r\\nHost: bench.test:%d\\r\\n\\r\\n" % (port, port)
            sock.sendall(head.encode())
            answer = sock.recv(4096)
            assert b" 200 " in answer, answer
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        sock, where = context.wrap_socket(sock, server_hostname="bench.test"), "/"
    return sock, where

def ask(sock, where, path):
    request = "GET %s%s HTTP/1.1\\r\\nHost: bench.test\\r\\nConnection: close\\r\\n\\r\\n" % (where, path)
    sock.sendall(request.encode())

def first_byte(port, proxy, secure):
    begun = time.perf_counter()
    sock, where = opened(port, proxy, secure)
    ask(sock, where, "small")
    assert sock.recv(4096).startswith(b"HTTP/1.1 200")
    seconds = time.perf_counter() - begun
    sock.close()
    return seconds

def large(port, proxy):
    begun = time.perf_counter()
    sock, where = opened(port, proxy, False)
    ask(sock, where, "large")
    buffer, size = bytearray(1 << 18), 0
    while count := sock.recv_into(buffer):
        size += count
    sock.close()
    assert size > 100_000_000, size
    return time.perf_counter() - begun

def many(port, proxy, count):
    begun = time.perf_counter()
    socks = [opened(port, proxy, False) for _ in range(count)]
    for sock, where in socks:
        ask(sock, where, "small")
    for sock, where in socks:
        assert sock.recv(4096).startswith(b"HTTP/1.1 200")
        sock.close()
    return time.perf_counter() - begun

def stall(port, proxy, count):
    kept = []
    for _ in range(count):
        sock, where = opened(port, proxy, False)
        ask(sock, where, "large")
        kept.append(sock)
    return kept
'''


class _Servers:
    """A web server, plain and with TLS, and a plain proxy that decides nothing, on loopback."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.http = self.https = self.proxy = 0
        self._serving: set[asyncio.Task[None] | None] = set()
        """The loop itself keeps no task alive."""

    def __enter__(self) -> Self:
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(30)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _start(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trustme.CA().issue_cert(HOST).configure_cert(context)
        self._servers = [
            await asyncio.start_server(self._answer, "127.0.0.1", 0),
            await asyncio.start_server(self._answer, "127.0.0.1", 0, ssl=context),
            await asyncio.start_server(self._relay, "127.0.0.1", 0),
        ]
        self.http, self.https, self.proxy = (server.sockets[0].getsockname()[1] for server in self._servers)

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            size = SIZE if b"large" in head.split(b"\r\n")[0] else 10
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % size)
            piece = bytes(min(size, 1 << 18))
            while size > 0:
                writer.write(piece[:size])
                size -= len(piece)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """CONNECT and plain requests alike go to this machine, at the port that they name."""
        self._serving.add(asyncio.current_task())
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            port = int(head.split(b"bench.test:")[1].split(b" ")[0].split(b"/")[0])
            far, out = await asyncio.open_connection("127.0.0.1", port)
            if head.startswith(b"CONNECT"):
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            else:
                out.write(head)
            upload = asyncio.create_task(_copy(reader, out))
            await _copy(far, writer)
            upload.cancel()
            await asyncio.gather(upload, return_exceptions=True)
            out.close()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 18):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    with suppress(OSError):
        writer.write_eof()  # where one end was reset too: the other waits for it


class _BareChannel:
    """Standard input and output of a container that sends back what comes: no code of ours but the ends."""

    def __init__(self) -> None:
        self._client = connect()
        name = f"bench-channel-{os.getpid()}"
        self._container = self._client.containers.create(
            image(),
            entrypoint=["python3", "-I", "-S", "-c", _ECHO],
            name=name,
            stdin_open=True,
            labels={OWNER_LABEL: owner_label()},
            auto_remove=True,
            network_mode="none",
            log_config=LogConfig(type="none"),
        )
        self._transport = AttachedTransport(self._client, name)

    def __enter__(self) -> Self:
        self._container.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._container.kill()
        self._transport.close()
        self._transport.release()

    def trips(self, count: int) -> float:
        """Seconds that so many round trips take, a program's pace apart."""
        seconds = 0.0
        for _ in range(count):
            time.sleep(_APART)
            begun = time.perf_counter()
            left = 600
            self._transport.send(bytes(left))
            while left:
                left -= len(self._transport.receive())
            seconds += time.perf_counter() - begun
        return seconds


def figures(root: Path) -> Iterator[Figure]:
    root.mkdir(exist_ok=True)

    async def here(host: str, port: int) -> list[Address]:
        return [Address("127.0.0.1", port)]

    with _Servers() as servers:
        rules = Rules.parse(
            [
                f"{scheme}://{HOST}:{port}"
                for scheme, port in (("http", servers.http), ("https", servers.https))
            ]
        )
        limits = EgressLimits(rate=1_000_000)
        gateway = Gateway(lambda: Proxy(rules=rules, resolve=here), limits=limits)
        with DockerExecutionBackend(
            root / "workspace", name="bench-gateway", image=image(), egress=gateway.door
        ) as backend:
            yield from _all(backend, servers)
        gateway.close()


def _all(backend: DockerExecutionBackend, servers: _Servers) -> Iterator[Figure]:
    local: dict[str, Any] = {}
    exec(_CLIENT, local)  # the same client on both sides
    sandbox = backend.sandbox
    proxy = 3128

    def inside(call: str) -> Callable[[], float]:
        def run() -> float:
            result = sandbox.run_python(f"print({call})", session="bench", timeout=120)
            assert result.exit_code == 0, result.output
            return float(result.output)

        return run

    assert sandbox.run_python(_CLIENT, session="bench").exit_code == 0
    with _BareChannel() as bare:
        for name, port, secure in (("http", servers.http, False), ("https", servers.https, True)):
            first = interleaved(
                {},
                reporting={
                    "direct": lambda p=port, s=secure: local["first_byte"](p, None, s),  # type: ignore[misc]
                    "plain loopback proxy": lambda p=port, s=secure: local["first_byte"](p, servers.proxy, s),  # type: ignore[misc]
                    "sandbox": inside(f"first_byte({port}, {proxy}, {secure})"),
                    "channel round trips": lambda count=_TRIPS[name]: bare.trips(count),  # type: ignore[misc]
                },
                rounds=100,
            )
            more = (first.median("sandbox") - first.median("direct")) * 1000
            floor = first.median("channel round trips") * 1000
            yield first.figure(
                f"first byte, {name}",
                "at most 3 ms more than direct",
                more <= 3,
                note=f"{more:.2f} ms more, {floor:.2f} of them the channel alone, {_TRIPS[name]} x both ways",
            )
    yield _large(backend, servers, local, inside(f"large({servers.http}, {proxy})"))
    many = interleaved(
        {},
        reporting={
            "direct": lambda: local["many"](servers.http, None, 100),
            "plain loopback proxy": lambda: local["many"](servers.http, servers.proxy, 100),
            "sandbox": inside(f"many({servers.http}, {proxy}, 100)"),
        },
        rounds=20,
        warm_up=2,
    )
    yield many.figure("100 connections at once", "all are served", True)
    yield _undelayed(backend, servers)


def _large(
    backend: DockerExecutionBackend, servers: _Servers, local: dict[str, Any], fetch: Callable[[], float]
) -> Figure:
    """Beside the channel itself: as many bytes written to a file inside, in memory."""
    content = bytes(SIZE)
    times = interleaved(
        {"the channel itself": lambda: backend.sandbox.write_file("/tmp/large", content)},
        reporting={
            "direct": lambda: local["large"](servers.http, None),
            "plain loopback proxy": lambda: local["large"](servers.http, servers.proxy),
            "sandbox": fetch,
        },
        rounds=7,
        warm_up=1,
    )
    factor = times.median("the channel itself") / times.median("sandbox")
    speed = SIZE / 1e6 / times.median("sandbox")
    return times.figure(
        "100 MB down",
        "at least half the speed of the channel itself",
        factor >= 0.5,
        unit="s",
        note=f"{speed:,.0f} MB/s, {factor:.2f} x the channel itself",
    )


def _undelayed(backend: DockerExecutionBackend, servers: _Servers) -> Figure:
    """Commands while programs do not read what they have asked for."""
    sandbox = backend.sandbox

    def commands() -> list[float]:
        return [timed(lambda: sandbox.run("echo hi")) for _ in range(200)]

    without = commands()
    stall = f"kept = stall({servers.http}, 3128, {_STALLED})"
    assert sandbox.run_python(stall, session="bench").exit_code == 0
    time.sleep(1)
    beside = commands()
    assert sandbox.run_python("for sock in kept: sock.close()", session="bench").exit_code == 0
    values = {
        "alone, ms": statistics.median(without) * 1000,
        "sandbox, ms": statistics.median(beside) * 1000,
        "slowest, ms": max(beside) * 1000,
    }
    return Figure(
        f"a command beside {_STALLED} stalled downloads",
        "",
        values,
        "the slowest at most 50 ms",
        max(beside) <= 0.05,
    )
