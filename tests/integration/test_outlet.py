"""Connections of programs inside, carried over the channel: bytes, ends, limits; they delay nobody."""

from __future__ import annotations

import asyncio
import os
import statistics
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path

import pytest

from libs.gateway.transport import StreamTransport
from libs.sandbox.base import ChannelSandbox
from libs.sandbox.container import DockerSandbox
from libs.sandbox.egress import EgressStream
from libs.sandbox.local import LocalSandbox

IMAGE = os.environ.get("SANDBOX_IMAGE", "code-execution-agent")
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Served:
    """A door behind which `serve` is run for each connection, on a loop of its own."""

    certificate = b""
    variables: Mapping[str, str] = {}

    def __init__(self) -> None:
        self.serve: Serve = echo
        self.owner: tuple[str, str] | None = None
        self.open = 0
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def belongs_to(self, sandbox: str, thread: str) -> None:
        self.owner = sandbox, thread

    def connected(self, stream: EgressStream) -> StreamTransport:
        self.open += 1
        return StreamTransport(self.loop, stream, make_protocol=self._protocol, over=self._over)

    def _over(self) -> None:
        self.open -= 1

    def _protocol(self) -> asyncio.StreamReaderProtocol:
        reader = asyncio.StreamReader(limit=128 * 1024, loop=self.loop)
        return asyncio.StreamReaderProtocol(reader, self._serve, loop=self.loop)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self.serve(reader, writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    def close(self) -> None:
        async def finish() -> None:
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(finish(), self.loop).result(10)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)
        self.loop.close()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


@pytest.fixture
def served() -> Iterator[Served]:
    door = Served()
    yield door
    door.close()


@pytest.fixture(params=["local", pytest.param("docker", marks=pytest.mark.docker)])
def sandbox(request: pytest.FixtureRequest, tmp_path: Path, served: Served) -> Iterator[ChannelSandbox]:
    made: ChannelSandbox
    if request.param == "local":
        made = LocalSandbox(tmp_path, egress=lambda: served)
    else:
        made = DockerSandbox(tmp_path, image=IMAGE, name="test-outlet", egress=lambda: served)
    with made:
        yield made


_CONNECT = """
import os, socket, sys, threading, time
port = int(os.environ["HTTP_PROXY"].rpartition(":")[2])
def connect():
    return socket.create_connection(("127.0.0.1", port), 20)
def all_of(sock):
    parts = []
    while part := sock.recv(65536):
        parts.append(part)
    return b"".join(parts)
"""


def python(sandbox: ChannelSandbox, code: str, timeout: float = 30) -> str:
    result = sandbox.run(f"python3 - <<'END'\n{_CONNECT}{code}\nEND", timeout=timeout)
    assert result.exit_code == 0, result.output
    return result.output


def test_what_is_sent_comes_back(sandbox: ChannelSandbox) -> None:
    code = """
data = os.urandom(5_000_000)
sock = connect()
sender = threading.Thread(target=lambda: (sock.sendall(data), sock.shutdown(socket.SHUT_WR)))
sender.start()
print(all_of(sock) == data)
"""
    assert python(sandbox, code) == "True\n"


def test_each_end_can_end_first(sandbox: ChannelSandbox, served: Served) -> None:
    async def last_word(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said = await reader.read()
        writer.write(b"after the end: " + said)

    served.serve = last_word
    half = 'sock = connect(); sock.sendall(b"all"); sock.shutdown(1); print(all_of(sock).decode())'
    assert python(sandbox, half) == "after the end: all\n"

    async def first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"bye")

    served.serve = first
    assert python(sandbox, "print(all_of(connect()).decode())") == "bye\n"
    _none_open(served)


def test_a_connection_that_is_dropped_is_dropped_there_too(sandbox: ChannelSandbox, served: Served) -> None:
    seen: list[str] = []

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            seen.append("end" if not await reader.read() else "data")
        except ConnectionError:
            seen.append("reset")

    served.serve = wait
    lingering = 'sock.setsockopt(1, 13, b"\\1\\0\\0\\0\\0\\0\\0\\0")'
    python(sandbox, f"sock = connect(); {lingering}; time.sleep(0.2); sock.close()")
    _none_open(served)
    assert seen == ["reset"]

    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    served.serve = cut
    code = """
try:
    print(connect().recv(10))
except ConnectionResetError:
    print("reset")
"""
    assert python(sandbox, code) == "reset\n"


def test_a_hundred_at_once(sandbox: ChannelSandbox, served: Served) -> None:
    code = """
socks = [connect() for _ in range(100)]
for number, sock in enumerate(socks):
    sock.sendall(b"%d" % number)
    sock.shutdown(1)
print(all(all_of(sock) == b"%d" % number for number, sock in enumerate(socks)))
"""
    assert python(sandbox, code) == "True\n"
    _none_open(served)


def test_more_than_are_let_in_wait_for_their_turn(sandbox: ChannelSandbox, served: Served) -> None:
    code = """
socks = [connect() for _ in range(300)]
time.sleep(0.5)
done = []
def use(sock):
    sock.sendall(b"x"); sock.shutdown(1); done.append(all_of(sock) == b"x"); sock.close()
threads = [threading.Thread(target=use, args=(sock,)) for sock in socks]
[thread.start() for thread in threads]
[thread.join(20) for thread in threads]
print(len(done), all(done))
"""
    assert python(sandbox, code) == "300 True\n"
    _none_open(served)


def test_whoever_does_not_read_delays_no_command(sandbox: ChannelSandbox, served: Served) -> None:
    """Both ways: a program that does not read what comes, and a host that does not read what is sent."""
    sent = 0

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        while True:
            writer.write(bytes(65_536))
            await writer.drain()
            sent += 65_536

    served.serve = flood
    sandbox.run("true")
    code = f"{_CONNECT}\nsocks = [connect() for _ in range(20)]\ntime.sleep(30)"
    sandbox.run(f"python3 -c '{code}' > /dev/null 2>&1 &")
    time.sleep(1)
    assert sent < 20 * 12_000_000  # what the kernel holds for a connection (tcp(7)), and no more

    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(30)

    served.serve = deaf
    code = """
sock = connect()
sock.settimeout(1)
try:
    sock.sendall(bytes(50_000_000))
except TimeoutError:
    print("full")
"""
    assert python(sandbox, code) == "full\n"
    times = []
    for _ in range(20):
        begun = time.monotonic()
        assert sandbox.run("echo hi").output == "hi\n"
        times.append(time.monotonic() - begun)
    assert statistics.median(times) < 0.5


@pytest.mark.docker
def test_without_a_gateway_nobody_listens(tmp_path: Path) -> None:
    with DockerSandbox(tmp_path, image=IMAGE, name="test-outlet") as sandbox:
        result = sandbox.run("env | grep -i proxy; curl -sS http://127.0.0.1:3128/")
        assert result.exit_code == 7, result.output
        assert "proxy" not in result.output.lower()


def test_commands_do_not_see_what_is_for_the_first_process(sandbox: ChannelSandbox) -> None:
    assert sandbox.run("env | grep ^SANDBOX_").output == ""
    assert "HTTPS_PROXY=http://127.0.0.1:" in sandbox.run("env").output


def test_no_worker_keeps_a_connection_open(sandbox: ChannelSandbox, served: Served) -> None:
    """A worker is forked while a connection is open: the host ends it, and the program sees the end."""

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)

    served.serve = wait
    code = """
sock = connect()
open("ready", "w").close()
while not os.path.exists("go"):
    time.sleep(0.01)
sock.sendall(b"x")
print(sock.recv(1) == b"")
"""
    answers: list[str] = []
    thread = threading.Thread(target=lambda: answers.append(python(sandbox, code)))
    thread.start()
    # More than those that are ready: some are forked now, with the connection open.
    slow = [threading.Thread(target=sandbox.run, args=("sleep 1",)) for _ in range(6)]
    for each in slow:
        each.start()
    sandbox.run("while [ ! -e ready ]; do sleep 0.01; done; touch go")
    for each in [*slow, thread]:
        each.join(20)
    assert answers == ["True\n"]


def test_a_sandbox_that_ends_ends_its_connections(sandbox: ChannelSandbox, served: Served) -> None:
    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    served.serve = wait
    sandbox.run(f"python3 -c '{_CONNECT}\nsock = connect()\ntime.sleep(60)' > /dev/null 2>&1 &")
    deadline = time.monotonic() + 10
    while not served.open and time.monotonic() < deadline:
        time.sleep(0.01)
    assert served.open == 1
    sandbox.close()
    _none_open(served)


def test_the_door_knows_whose_it_is(sandbox: ChannelSandbox, served: Served) -> None:
    sandbox.run("true")
    assert served.owner is not None
    name = sandbox.container_name if isinstance(sandbox, DockerSandbox) else sandbox.name
    assert served.owner == (name, "")


def _none_open(served: Served) -> None:
    deadline = time.monotonic() + 10
    while served.open and time.monotonic() < deadline:
        time.sleep(0.01)
    assert served.open == 0
