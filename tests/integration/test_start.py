"""From the start of a sandbox until it is ready: what is asked of it meanwhile, and where it never is."""

from __future__ import annotations

import asyncio
import os
import select
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from libs.backends.docker import DockerExecutionBackend
from libs.sandbox import life, local, payloads
from libs.sandbox.channel import Channel
from libs.sandbox.engine import endpoint
from libs.sandbox.errors import SandboxDied, SandboxError
from libs.sandbox.frames import ANSWER, Ending, Kind, encode
from libs.sandbox.guest import write_guest
from libs.sandbox.local import LocalSandbox
from libs.sandbox.records import CommandRecords
from tests.load.left import containers
from tests.waiting import eventually

SLOW = "import runpy, sys, time; time.sleep(2); runpy.run_path(sys.argv[0] + 'c', run_name='__main__')"
DEAD = "import time; time.sleep(0.5); raise SystemExit('it is broken')"
READY = encode(0, Kind.END, ANSWER.pack(Ending.DONE, True))
STUCK = f"import os, sys, time; time.sleep(0.5); os.write(1, {READY!r}); sys.stdin.buffer.read()"
SILENT = "import sys; sys.stdin.buffer.read()"

Begins = Callable[[str], None]


@pytest.fixture
def starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Begins:
    """Has sandboxes begin with this program; a byte for each start is written to `starts`."""

    def begin(program: str) -> None:
        def write(folder: Path) -> Path:
            write_guest(folder)
            with (tmp_path / "starts").open("a") as file:
                file.write("x")
            (folder / "main.py").write_text(program)
            return folder / "main.py"

        monkeypatch.setattr(local, "write_guest", write)

    return begin


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[LocalSandbox]:
    with LocalSandbox(tmp_path / "workspace") as sandbox:
        yield sandbox


WAYS: dict[str, Callable[[LocalSandbox], object]] = {
    "command": lambda sandbox: sandbox.run("echo on", timeout=1).output,
    "awaited command": lambda sandbox: asyncio.run(sandbox.arun("echo on", timeout=1)).output,
    "block": lambda sandbox: sandbox.run_python("print('on')", session="s", timeout=1).output,
    "file": lambda sandbox: sandbox.write_file(f"{sandbox.root}/new", bytes(3_000_000)),
    "awaited file": lambda sandbox: asyncio.run(sandbox.awrite_file(f"{sandbox.root}/new", b"new")),
    "start": lambda sandbox: sandbox.start(),
}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Callable[[LocalSandbox], object]:
    return WAYS[request.param]


WANTED: dict[str, Callable[[LocalSandbox], Coroutine[Any, Any, object]]] = {
    "command": lambda sandbox: sandbox.arun("touch begun"),
    "longer command": lambda sandbox: sandbox.arun("sleep 0.1; touch begun"),
    "block": lambda sandbox: sandbox.arun_python("open('begun', 'w').close()", session="s"),
    "file": lambda sandbox: sandbox.awrite_file(f"{sandbox.root}/begun", b"x"),
}


def asked_of(sandbox: LocalSandbox) -> int:
    """Requests that are under way."""
    return sum(call > 0 for call in list(sandbox._channel._calls)) if sandbox._channel else 0


class TestSlow:
    def test_it_is_not_the_commands_time(
        self,
        sandbox: LocalSandbox,
        way: Callable[[LocalSandbox], object],
        starts: Begins,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(life, "_PATIENCE", 0.5)
        starts(SLOW)
        begun = time.monotonic()
        assert way(sandbox) in ("on\n", None)
        assert time.monotonic() - begun > 2
        assert sandbox.running

    def test_what_is_asked_meanwhile_is_sent(self, sandbox: LocalSandbox, starts: Begins) -> None:
        starts(SLOW)
        with ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(sandbox.run, f"echo {number}") for number in range(4)]
            eventually(lambda: asked_of(sandbox) == 4)
            assert not sandbox.running
            assert [each.result().output for each in asked] == [f"{number}\n" for number in range(4)]

    @pytest.mark.parametrize("what", WANTED)
    async def test_who_goes_meanwhile_takes_nobody_along(
        self, sandbox: LocalSandbox, starts: Begins, what: str
    ) -> None:
        """What nobody wants any more is not begun."""
        starts(SLOW)
        gone = asyncio.ensure_future(WANTED[what](sandbox))
        stays = asyncio.create_task(sandbox.arun("echo on"))
        await asyncio.to_thread(eventually, lambda: asked_of(sandbox) == 2)
        gone.cancel()
        await asyncio.sleep(0)
        assert not sandbox.running
        assert (await stays).output == "on\n"
        await asyncio.sleep(1)
        assert not (sandbox.root / "begun").exists()

    def test_it_stops_answering_when_it_is_ready(
        self,
        sandbox: LocalSandbox,
        way: Callable[[LocalSandbox], object],
        starts: Begins,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """It has the command's time then, and no longer that of a start."""
        monkeypatch.setattr(payloads, "_FILE_SECONDS", 1)
        monkeypatch.setattr(life, "_PATIENCE", 0.5)
        starts(STUCK)
        begun = time.monotonic()
        if way is WAYS["start"]:
            way(sandbox)
        else:
            with pytest.raises(SandboxDied, match="does not answer"):
                way(sandbox)
        assert time.monotonic() - begun < 15

    @pytest.mark.parametrize("way", [*WAYS, "keyed"])
    def test_it_is_closed_meanwhile(self, tmp_path: Path, starts: Begins, way: str) -> None:
        """What was sent may have begun; what was not is told so, and nobody that the start has failed."""
        ways = {**WAYS, "keyed": lambda sandbox: sandbox.run("echo on", key="m/1")}
        records = CommandRecords(tmp_path / "commands.sqlite")
        starts(SLOW)
        with LocalSandbox(tmp_path / "w", records=records) as sandbox, ThreadPoolExecutor(1) as pool:
            asked = pool.submit(ways[way], sandbox)
            if way in ("start", "keyed"):
                eventually(lambda: sandbox._channel)
            else:
                eventually(lambda: asked_of(sandbox) == 1)
            sandbox.close()
            with pytest.raises(SandboxError, match=r"closed|ended") as failure:
                asked.result()
            assert isinstance(failure.value, SandboxDied) == (way not in ("start", "keyed"))
            assert "ready" not in str(failure.value)
            assert sandbox._failed is None
            assert sandbox.run("echo on").output == "on\n"
        records.close()

    def test_it_is_closed_before_anything_is_sent(self, tmp_path: Path, starts: Begins) -> None:
        class GoesAtOnce(LocalSandbox):
            lives = 0

            def _started(self) -> Channel:
                channel = super()._started()
                self.lives += 1
                if self.lives == 1:
                    self.close()
                return channel

        starts(SLOW)
        with GoesAtOnce(tmp_path / "workspace") as sandbox:
            assert sandbox.run("echo on").output == "on\n"
            assert sandbox.lives == 2


class TestNever:
    """It ends instead, or says nothing. Whether what was sent to it has begun is not known then."""

    def test_it_ends(
        self, sandbox: LocalSandbox, way: Callable[[LocalSandbox], object], starts: Begins, tmp_path: Path
    ) -> None:
        starts(DEAD)
        with pytest.raises(SandboxError, match="did not become ready") as failure:
            way(sandbox)
        assert isinstance(failure.value, SandboxDied) == (way is not WAYS["start"])
        assert (tmp_path / "starts").read_text() == "x"
        assert not sandbox.running
        starts(SLOW)
        assert sandbox.run("echo on").output == "on\n"

    def test_it_says_nothing(
        self,
        sandbox: LocalSandbox,
        way: Callable[[LocalSandbox], object],
        starts: Begins,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(payloads, "_FILE_SECONDS", 0.1)
        monkeypatch.setattr(life, "_START_SECONDS", 1.0)
        monkeypatch.setattr(life, "_PATIENCE", 0.2)
        starts(SILENT)
        begun = time.monotonic()
        with pytest.raises(SandboxError, match="did not become ready"):
            way(sandbox)
        assert time.monotonic() - begun < 10
        assert sandbox.process
        assert sandbox.process.poll() is not None

    def test_that_takes_no_longer_for_a_long_command(
        self, sandbox: LocalSandbox, starts: Begins, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(life, "_START_SECONDS", 1.0)
        starts(SILENT)
        begun = time.monotonic()
        with pytest.raises(SandboxDied, match="did not become ready"):
            sandbox.run("true", timeout=60)
        with pytest.raises(SandboxDied, match="did not become ready"):
            asyncio.run(sandbox.arun("true", timeout=60))
        assert time.monotonic() - begun < 10

    def test_those_who_wait_are_told_the_same(
        self, sandbox: LocalSandbox, starts: Begins, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(life, "_START_SECONDS", 1.0)
        starts(SILENT)
        with ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(sandbox.run, "true") for _ in range(4)]
            errors = [each.exception() for each in asked]
        assert [str(error) for error in errors] == ["The process of this sandbox did not become ready."] * 4

    def test_what_is_given_up_may_have_begun(
        self, sandbox: LocalSandbox, starts: Begins, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It comes to read what was sent, late: whoever has sent it is told that this may be."""
        monkeypatch.setattr(life, "_START_SECONDS", 1.0)
        starts(SLOW)
        with pytest.raises(SandboxDied) as failure:
            sandbox.run("touch begun")
        assert "may have taken effect" in failure.value.hint

    @pytest.mark.parametrize("how", ["sync", "async"])
    def test_what_has_a_key_is_sent_to_one_that_is_ready_alone(
        self, tmp_path: Path, starts: Begins, monkeypatch: pytest.MonkeyPatch, how: str
    ) -> None:
        class Goes(LocalSandbox):
            """Between the moment when it is written down and the one when it is sent."""

            gone = False

            def _go(self) -> None:
                if not self.gone:
                    self.gone = True
                    self.close()
                    starts(SLOW)

            def _started(self) -> Channel:
                self._go()
                return super()._started()

            async def _astarted(self) -> Channel:
                self._go()
                return await super()._astarted()

        records = CommandRecords(tmp_path / "commands.sqlite")
        with Goes(tmp_path / "workspace", records=records) as sandbox:
            sandbox.start()
            with monkeypatch.context() as impatient:
                impatient.setattr(life, "_START_SECONDS", 1.0)
                with pytest.raises(SandboxError, match="did not become ready") as failure:
                    if how == "sync":
                        sandbox.run("echo x >> log", key="m/1")
                    else:
                        asyncio.run(sandbox.arun("echo x >> log", key="m/1"))
            assert not isinstance(failure.value, SandboxDied)
            assert sandbox.run("echo x >> log; cat log", key="m/2").output == "x\n"
            assert sandbox.run("echo x >> log", key="m/1").exit_code == 0
            assert sandbox.run("cat log").output == "x\nx\n"
        records.close()

    def test_what_has_a_key_is_not_on_record(self, tmp_path: Path, starts: Begins) -> None:
        records = CommandRecords(tmp_path / "commands.sqlite")
        with LocalSandbox(tmp_path / "workspace", records=records) as sandbox:
            starts(DEAD)
            with pytest.raises(SandboxError, match="did not become ready"):
                sandbox.run("echo x >> log", key="m/1")
            starts(SLOW)
            assert sandbox.run("echo x >> log; cat log", key="m/1").output == "x\n"
            assert sandbox.run("echo x >> log; cat log", key="m/1").output == "x\n"
        records.close()


@contextmanager
def engine_over_tcp() -> Iterator[str]:
    """The address of the Engine on a port of this machine."""
    engine_path = endpoint().removeprefix("unix://")

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.socket(socket.AF_UNIX) as engine:
                engine.connect(engine_path)
                ways = {self.request: engine, engine: self.request}
                while True:
                    for source in select.select(list(ways), [], [])[0]:
                        data = source.recv(65_536)
                        if not data:
                            return
                        ways[source].sendall(data)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads, server.block_on_close = True, False
        threading.Thread(target=server.serve_forever).start()
        try:
            yield f"tcp://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


@pytest.mark.docker
def test_an_engine_that_is_not_a_socket_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"start-{os.urandom(4).hex()}"
    with engine_over_tcp() as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        with DockerExecutionBackend(tmp_path, name=name) as backend:
            assert backend.execute("echo on").output == "on\n"
            assert backend.upload_files([("/tmp/x", bytes(3_000_000))])[0].error is None
            assert backend.execute("stat -c %s /tmp/x").output == "3000000\n"
        monkeypatch.delenv("DOCKER_HOST")
        assert containers(name) == {}
        monkeypatch.setenv("DOCKER_HOST", address)
        with DockerExecutionBackend(tmp_path, name=name, image="no-such-image-anywhere") as backend:
            answer = backend.execute("true")
            assert "no-such-image-anywhere" in answer.output
            assert "setup" in answer.output
