"""Connections from the sandbox over the channel: bytes, ends, limits, and no delay of commands."""

from __future__ import annotations

import asyncio
import statistics
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from pathlib import Path

import pytest

from libs.gateway.program_stream import ProgramStream
from libs.sandbox.docker.container import DockerSandbox
from libs.sandbox.host.channel import EgressStream
from libs.sandbox.host.channel_sandbox import ChannelSandbox
from libs.sandbox.host.local_sandbox import LocalSandbox
from tests.support.sandboxes import DOCKER, IMAGE
from tests.support.waiting import eventually

Serve = Callable[[ProgramStream], Awaitable[object]]


class Served:
    """A stand-in for the gateway: runs `serve` for each connection on its own event loop."""

    certificate = b""
    variables: Mapping[str, str] = {}

    def __init__(self) -> None:
        self.serve: Serve = echo
        self.owner: tuple[str, str] | None = None
        self.refused: Callable[[], set[str] | None] = lambda: None
        self.open = 0
        self.unreached: set[str] = set()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def belongs_to(self, sandbox: str, thread: str) -> None:
        self.owner = sandbox, thread

    def refuse(self, refused: Callable[[], set[str] | None]) -> None:
        self.refused = refused

    def declare(self, request: int, uses: Collection[str]) -> None:
        pass

    def connected(self, connection: EgressStream) -> ProgramStream:
        self.open += 1
        stream = ProgramStream(self.loop, connection, self.refused)
        asyncio.run_coroutine_threadsafe(self._serve(stream), self.loop)
        return stream

    async def _serve(self, stream: ProgramStream) -> None:
        try:
            await self.serve(stream)
        except ConnectionError:
            pass
        finally:
            self.open -= 1
            await stream.close(0)

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


async def echo(stream: ProgramStream) -> None:
    while data := await stream.read():
        await stream.write(data)


@pytest.fixture
def served() -> Iterator[Served]:
    door = Served()
    yield door
    door.close()


@pytest.fixture(params=["local", pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.thorough])])
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


@pytest.mark.parametrize("sandbox", ["local", DOCKER], indirect=True)
def test_bytes_in_both_directions(sandbox: ChannelSandbox) -> None:
    code = """
data = os.urandom(5_000_000)
sock = connect()
sender = threading.Thread(target=lambda: (sock.sendall(data), sock.shutdown(socket.SHUT_WR)))
sender.start()
print(all_of(sock) == data)
"""
    assert python(sandbox, code) == "True\n"
    # Commands see the proxy, and no variable of the supervisor.
    seen = sandbox.run("env").output.splitlines()
    assert any(line.startswith("HTTPS_PROXY=http://127.0.0.1:") for line in seen)
    assert not any(line.startswith("SANDBOX_") for line in seen)


def test_either_side_can_end_first(sandbox: ChannelSandbox, served: Served) -> None:
    async def last_word(stream: ProgramStream) -> None:
        said = b""
        while data := await stream.read():
            said += data
        await stream.write(b"after the end: " + said)

    served.serve = last_word
    half = 'sock = connect(); sock.sendall(b"all"); sock.shutdown(1); print(all_of(sock).decode())'
    assert python(sandbox, half) == "after the end: all\n"
    served.serve = lambda stream: stream.write(b"bye")
    assert python(sandbox, "print(all_of(connect()).decode())") == "bye\n"
    eventually(lambda: not served.open, 10)


def test_reset_reaches_the_other_side(sandbox: ChannelSandbox, served: Served) -> None:
    seen: list[str] = []

    async def wait(stream: ProgramStream) -> None:
        await stream.write(b"!")
        try:
            seen.append("end" if not await stream.read() else "data")
        except ConnectionError:
            seen.append("reset")

    served.serve = wait
    lingering = 'sock.setsockopt(1, 13, b"\\1\\0\\0\\0\\0\\0\\0\\0")'
    python(sandbox, f"sock = connect(); {lingering}; sock.recv(1); sock.close()")
    eventually(lambda: seen)
    eventually(lambda: not served.open, 10)
    assert seen == ["reset"]

    async def cut(stream: ProgramStream) -> None:
        stream.reset()

    served.serve = cut
    code = """
try:
    print(connect().recv(10))
except ConnectionResetError:
    print("reset")
"""
    assert python(sandbox, code) == "reset\n"


def test_connections_over_the_limit_wait(sandbox: ChannelSandbox, served: Served) -> None:
    code = """
socks = [connect() for _ in range(300)]
time.sleep(0.5)
done = []
def use(number, sock):
    said = b"%d" % number
    sock.sendall(said); sock.shutdown(1); done.append(all_of(sock) == said); sock.close()
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(100) as pool:  # the sandbox has fewer processes than there are connections
    list(pool.map(use, range(300), socks))
print(len(done), all(done))
"""
    assert python(sandbox, code) == "300 True\n"
    eventually(lambda: not served.open, 10)


def median_seconds(sandbox: ChannelSandbox) -> float:
    """Return the median time of a short command."""
    times = []
    for _ in range(20):
        begun = time.monotonic()
        assert sandbox.run("echo hi").output == "hi\n"
        times.append(time.monotonic() - begun)
    return statistics.median(times)


def test_unread_connections_delay_no_command(sandbox: ChannelSandbox, served: Served) -> None:
    """Both directions: a program that does not read, and a host that does not read."""
    sent = 0

    async def flood(stream: ProgramStream) -> None:
        nonlocal sent
        while True:
            await stream.write(bytes(65_536))
            sent += 65_536

    served.serve = flood
    before = median_seconds(sandbox)
    code = f"{_CONNECT}\nsocks = [connect() for _ in range(20)]\ntime.sleep(30)"
    sandbox.run(f"python3 -c '{code}' > /dev/null 2>&1 &")
    time.sleep(1)
    assert sent < 20 * 12_000_000  # what the kernel holds for a connection (tcp(7)), and no more

    served.serve = lambda _: asyncio.sleep(30)
    code = """
sock = connect()
sock.settimeout(1)
try:
    sock.sendall(bytes(50_000_000))
except TimeoutError:
    print("full")
"""
    assert python(sandbox, code) == "full\n"
    assert median_seconds(sandbox) < max(10 * before, 0.5)


@pytest.mark.docker
def test_no_proxy_listens_without_a_gateway(tmp_path: Path) -> None:
    with DockerSandbox(tmp_path, image=IMAGE, name="test-outlet") as sandbox:
        result = sandbox.run("env | grep -i proxy; curl -sS http://127.0.0.1:3128/")
        assert result.exit_code == 7, result.output
        assert "proxy" not in result.output.lower()


def test_forked_workers_do_not_inherit_connections(sandbox: ChannelSandbox, served: Served) -> None:
    """The program sees the end of a connection although workers were forked while the connection was open."""

    served.serve = ProgramStream.read
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
    # More commands than ready workers, so some are forked now.
    slow = [threading.Thread(target=sandbox.run, args=("sleep 0.5",)) for _ in range(6)]
    for each in slow:
        each.start()
    sandbox.run("while [ ! -e ready ]; do sleep 0.01; done; touch go")
    for each in [*slow, thread]:
        each.join(60)
    assert answers == ["True\n"]


def test_connections_end_with_their_sandbox(sandbox: ChannelSandbox, served: Served) -> None:
    served.serve = ProgramStream.read
    sandbox.run(f"python3 -c '{_CONNECT}\nsock = connect()\ntime.sleep(60)' > /dev/null 2>&1 &")
    eventually(lambda: served.open == 1, 10)
    sandbox.close()
    eventually(lambda: not served.open, 10)


def test_gateway_learns_the_sandbox_of_a_connection(sandbox: ChannelSandbox, served: Served) -> None:
    sandbox.run("true")
    assert served.owner is not None
    name = sandbox.container_name if isinstance(sandbox, DockerSandbox) else sandbox.name
    assert served.owner == (name, "")


@pytest.mark.parametrize("sandbox", ["local", DOCKER], indirect=True)
def test_connections_that_wait_at_the_end_of_a_call_are_dropped(
    sandbox: ChannelSandbox, served: Served
) -> None:
    """The kernel keeps what an ended program has sent on connections that were not accepted."""
    came: list[tuple[bytes, bool]] = []

    async def note(stream: ProgramStream) -> None:
        came.append((await stream.read(), stream.refused is not None))

    served.serve = note
    code = """
held = [connect() for _ in range(256)]
for _ in range(50):
    waits = socket.socket()
    waits.setblocking(False)
    waits.connect_ex(("127.0.0.1", port))
    waits.send(b"waits")
    held.append(waits)
"""
    with sandbox.without_network():
        sandbox.run(f"ulimit -n 1024; python3 - <<'END'\n{_CONNECT}{code}\nEND", alone=True)
        sandbox.run("true")
    python(sandbox, 'connect().send(b"next")')
    eventually(lambda: (b"next", False) in came)
    assert (b"waits", False) not in came
