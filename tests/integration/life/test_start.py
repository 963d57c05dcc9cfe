"""Requests during the start of a sandbox, and starts that fail."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from libs.backends.docker import DockerExecutionBackend
from libs.sandbox.errors import SandboxDied, SandboxError
from libs.sandbox.host import awaited_answers
from libs.sandbox.host import lifecycle as life
from libs.sandbox.host import local_sandbox as local
from libs.sandbox.host.channel import Channel
from libs.sandbox.host.local_sandbox import LocalSandbox
from libs.sandbox.host.records.command_log import CommandRecords
from libs.sandbox.host.requests import request_payloads as payloads
from libs.sandbox.image_contents import write_guest
from libs.sandbox.wire.frames import ANSWER, Ending, Kind, encode
from tests.load.left import containers
from tests.servers.engine_proxy import EngineProxy
from tests.support.sandboxes import IMAGE
from tests.support.waiting import eventually

AT_ONCE = "import runpy; runpy.run_path(__file__.replace('begin.py', 'start.py'), run_name='__main__')"
SLOW = f"import time; time.sleep(1); {AT_ONCE}"
DEAD = "import time; time.sleep(0.2); raise SystemExit('it is broken')"
READY = encode(0, Kind.END, ANSWER.pack(Ending.DONE, True))
STUCK = f"import os, sys, time; time.sleep(0.2); os.write(1, {READY!r}); sys.stdin.buffer.read()"
SILENT = "import sys; sys.stdin.buffer.read()"

Begins = Callable[[str], None]


@pytest.fixture
def starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Begins:
    """Replace the first program of sandboxes. Each start writes a byte to `starts`."""

    def begin(source: str) -> None:
        def write(folder: Path) -> Path:
            program = write_guest(folder).with_name("begin.py")
            with (tmp_path / "starts").open("a") as file:
                file.write("x")
            program.write_text(source)
            return program

        monkeypatch.setattr(local, "write_guest", write)

    return begin


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[LocalSandbox]:
    with LocalSandbox(tmp_path / "workspace") as sandbox:
        yield sandbox


class TestSlow:
    async def test_requests_wait_for_the_start(
        self, sandbox: LocalSandbox, starts: Begins, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The start is not time of the command. A request that is cancelled meanwhile does not begin."""
        monkeypatch.setattr(awaited_answers, "_PATIENCE", 0.1)
        starts(SLOW)
        gone = asyncio.create_task(sandbox.arun("touch begun"))
        asked = [asyncio.create_task(sandbox.arun(f"echo {number}", timeout=0.5)) for number in range(4)]
        await asyncio.to_thread(eventually, lambda: sandbox._channel)
        gone.cancel()
        assert not sandbox.running
        assert [(await each).output for each in asked] == [f"{number}\n" for number in range(4)]
        assert not (sandbox.root / "begun").exists()

    @pytest.mark.parametrize("way", ["command", "file"])
    def test_sandbox_that_hangs_after_the_start_is_given_up(
        self, sandbox: LocalSandbox, way: str, starts: Begins, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(payloads, "_FILE_SECONDS", 0.5)
        monkeypatch.setattr(awaited_answers, "_PATIENCE", 0.3)
        starts(STUCK)
        begun = time.monotonic()
        with pytest.raises(SandboxDied, match="does not answer"):
            if way == "command":
                sandbox.run("true", timeout=1)
            else:
                sandbox.write_file("new", bytes(3_000_000))
        assert time.monotonic() - begun < 15

    @pytest.mark.parametrize("key", [None, "m/1"])
    def test_close_during_the_start(self, tmp_path: Path, starts: Begins, key: str | None) -> None:
        """The command did not begin, and no later sandbox runs it."""
        records = CommandRecords(tmp_path / "commands.sqlite")
        starts(SLOW)
        with LocalSandbox(tmp_path / "w", records=records) as sandbox, ThreadPoolExecutor(1) as pool:
            asked = pool.submit(sandbox.run, "echo on", key=key)
            eventually(lambda: sandbox._channel)
            starts(AT_ONCE)
            sandbox.close()
            with pytest.raises(SandboxError, match="closed while it started") as failure:
                asked.result()
            assert failure.value.hint == "Nothing was asked of it yet: ask again."
            assert sandbox.run("echo on", key=key).output == "on\n"
        records.close()

    def test_close_before_a_request_is_sent(self, tmp_path: Path, starts: Begins) -> None:
        class GoesAtOnce(LocalSandbox):
            lives = 0

            async def _ready_channel(self) -> Channel:
                channel = await super()._ready_channel()
                self.lives += 1
                if self.lives == 1:
                    await self.aclose()
                return channel

        starts(AT_ONCE)
        with GoesAtOnce(tmp_path / "workspace") as sandbox:
            assert sandbox.run("echo on").output == "on\n"
            assert sandbox.lives == 2


class TestNever:
    """The sandbox ends or stays silent before it is ready. No request was sent."""

    def test_sandbox_that_ends_during_the_start(
        self, sandbox: LocalSandbox, starts: Begins, tmp_path: Path
    ) -> None:
        starts(DEAD)
        with pytest.raises(SandboxError, match="did not become ready"):
            sandbox.run("echo on")
        assert (tmp_path / "starts").read_text() == "x"
        assert not sandbox.running
        starts(AT_ONCE)
        assert sandbox.run("echo on").output == "on\n"

    def test_waiting_callers_get_the_error_of_a_silent_sandbox(
        self, sandbox: LocalSandbox, starts: Begins, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(life, "_START_SECONDS", 0.5)
        starts(SILENT)
        begun = time.monotonic()
        with ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(sandbox.run, "true", timeout=60) for _ in range(4)]
            errors = [each.exception() for each in asked]
        assert [str(error) for error in errors] == ["The process of this sandbox did not become ready."] * 4
        assert time.monotonic() - begun < 10
        assert sandbox.process
        assert sandbox.process.poll() is not None

    def test_command_with_a_key_that_was_not_sent_can_run_later(
        self, tmp_path: Path, starts: Begins, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Goes(LocalSandbox):
            """Closes the sandbox after the record and before the request."""

            going = False

            async def _ready_channel(self) -> Channel:
                if self.going:
                    await self.aclose()
                return await super()._ready_channel()

        records = CommandRecords(tmp_path / "commands.sqlite")
        with Goes(tmp_path / "workspace", records=records) as sandbox:
            sandbox.start()
            sandbox.going = True
            starts(SLOW)
            with monkeypatch.context() as impatient:
                impatient.setattr(life, "_START_SECONDS", 0.4)
                with pytest.raises(SandboxError, match="did not become ready"):
                    sandbox.run("echo x >> log", key="m/1")
            sandbox.going = False
            starts(AT_ONCE)
            assert sandbox.run("echo x >> log; cat log", key="m/1").output == "x\n"
        records.close()


@pytest.mark.docker
def test_engine_over_tcp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"start-{os.urandom(4).hex()}"
    with EngineProxy() as proxy:
        monkeypatch.setenv("DOCKER_HOST", proxy.address)
        with DockerExecutionBackend(tmp_path, name=name, image=IMAGE) as backend:
            assert backend.execute("echo on").output == "on\n"
            assert backend.upload_files([("/tmp/x", bytes(3_000_000))])[0].error is None
            assert backend.execute("stat -c %s /tmp/x").output == "3000000\n"
        monkeypatch.delenv("DOCKER_HOST")
        assert containers(name) == {}
        monkeypatch.setenv("DOCKER_HOST", proxy.address)
        with DockerExecutionBackend(tmp_path, name=name, image="no-such-image-anywhere") as backend:
            answer = backend.execute("true")
            assert "no-such-image-anywhere" in answer.output
            assert "setup" in answer.output
