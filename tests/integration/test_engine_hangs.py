"""An Engine that hangs from a certain request on (S11): told in time, and nothing is left once it goes on.

By way of a socket before the shared Engine that holds back what passes. One that hangs altogether is in
test_engine_restart.py.
"""

from __future__ import annotations

import os
import select
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from libs.backends.docker import DockerExecutionBackend
from libs.sandbox import engine, engine_api, removal
from libs.sandbox.engine import endpoint
from tests.load.left import containers

pytestmark = [
    pytest.mark.docker,
    # docker-py leaves the sockets of answers that never came to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

IMAGE = os.environ.get("SANDBOX_IMAGE", "code-execution-agent")
ANSWER, WORK = 1.0, 3.0


class Held:
    """Passes everything on between a socket and the Engine, until a request holds `at`: then nothing."""

    def __init__(self, path: Path, at: bytes) -> None:
        self._going = threading.Event()
        self._going.set()
        engine_path = endpoint().removeprefix("unix://")
        held = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with socket.socket(socket.AF_UNIX) as engine:
                    engine.connect(engine_path)
                    held._pass_on(self.request, engine, at)

        self._server = socketserver.ThreadingUnixStreamServer(str(path), Handler)
        self._server.daemon_threads, self._server.block_on_close = True, False
        threading.Thread(target=self._server.serve_forever).start()
        self.reached = False

    def _pass_on(self, client: socket.socket, engine: socket.socket, at: bytes) -> None:
        ways = {client: engine, engine: client}
        while True:
            for source in select.select(list(ways), [], [])[0]:
                try:
                    data = source.recv(65_536)
                    if source is client and at in data and not self.reached:
                        self.reached = True
                        self._going.clear()
                    self._going.wait()
                    if not data:
                        return
                    ways[source].sendall(data)
                except OSError:
                    if ways[source] is engine:
                        return
                    # Whoever asked has gone. It is done all the same, as by an Engine that hung.
                    continue

    def go_on(self) -> None:
        self._going.set()

    def close(self) -> None:
        self.go_on()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def name() -> str:
    return f"hangs-{os.urandom(4).hex()}"


@pytest.fixture
def held(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    for module in (engine, engine_api):
        monkeypatch.setattr(module, "ANSWER_SECONDS", ANSWER)
        monkeypatch.setattr(module, "WORK_SECONDS", WORK)
    monkeypatch.setattr(removal, "STOP_SECONDS", ANSWER)
    held = Held(tmp_path / "socket", request.param)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/socket")
    yield held
    held.close()


@pytest.mark.parametrize(
    "held",
    [b"/version", b"/_ping", b"/images/", b"/containers/create", b"/attach?", b"/start"],
    indirect=True,
)
def test_starting(held: Held, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with DockerExecutionBackend(tmp_path / "workspace", name=name, image=IMAGE) as backend:
        begun = time.monotonic()
        answer = backend.execute("true")
        assert held.reached
        assert answer.exit_code == 125
        assert "took too long" in answer.output
        assert "docker info" in answer.output
        assert time.monotonic() - begun < WORK + 3 * ANSWER + 2
        held.go_on()
        time.sleep(1)  # for what had been asked of it
        assert backend.execute("echo on").output == "on\n"
        monkeypatch.delenv("DOCKER_HOST")
        deadline = time.monotonic() + 10
        while len(left := containers(name)) > 1:
            assert time.monotonic() < deadline, f"left: {left}"
            time.sleep(0.1)
    assert containers(name) == {}


@pytest.mark.parametrize("held", [b"/wait?"], indirect=True)
def test_closing(held: Held, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = DockerExecutionBackend(tmp_path / "workspace", name=name, image=IMAGE)
    assert backend.execute("echo on").output == "on\n"
    begun = time.monotonic()
    backend.close()
    assert held.reached
    assert time.monotonic() - begun < 2 * ANSWER + 2
    held.go_on()
    monkeypatch.delenv("DOCKER_HOST")
    deadline = time.monotonic() + 10
    while left := containers(name):
        assert time.monotonic() < deadline, f"left: {left}"
        time.sleep(0.1)
