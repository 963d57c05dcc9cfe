"""S16: what has a key is done once, whatever it runs in, and whatever becomes of the program that asked."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx

from libs.backends.docker import DockerExecutionBackend
from libs.backends.docker.backend import CALL_KEY
from libs.gateway.redaction import SecretFilter
from libs.sandbox import (
    CommandInterrupted,
    CommandUnderWay,
    DockerUnavailable,
    FileFailed,
    KeyReused,
    RecordUnavailable,
    RunResult,
    SandboxDied,
)
from libs.sandbox.base import ChannelSandbox
from libs.sandbox.channel import Channel
from libs.sandbox.container import DockerSandbox
from libs.sandbox.local import LocalSandbox
from libs.sandbox.records import CommandRecords

ROOT = Path(__file__).parents[2]
IMAGE = "code-execution-agent"
DOCKER = pytest.mark.docker
KINDS = ["local", pytest.param("docker", marks=DOCKER), pytest.param("pool", marks=DOCKER)]


@dataclass
class Bench:
    """A sandbox with a record, of one kind; `again()` is another program's, on the same workspace."""

    kind: str
    folder: Path
    open: ExitStack = field(default_factory=ExitStack)
    thread: str = "t"

    def __post_init__(self) -> None:
        self.sandbox = self.again()

    def again(self, **more: Any) -> ChannelSandbox:
        records = CommandRecords(self.folder / "commands.sqlite")
        self.open.callback(records.close)
        if self.kind == "pool":
            backend = DockerExecutionBackend(
                self.folder / "w", name="keyed", scope="thread", warm=0, records=records, **more
            )
            return self.open.enter_context(backend).sandbox
        options = {"records": records, "thread": lambda: self.thread, **more}
        if self.kind == "docker":
            return self.open.enter_context(
                DockerSandbox(self.folder / "w", image=IMAGE, name="keyed", **options)
            )
        return self.open.enter_context(LocalSandbox(self.folder / "w", **options))

    @property
    def path(self) -> Path:
        """The workspace as this side sees it."""
        assert isinstance(self.sandbox, LocalSandbox | DockerSandbox)
        return self.sandbox.root

    def inside(self, name: str) -> str:
        return str(self.path / name) if self.kind == "local" else f"/workspace/{name}"

    def end(self) -> None:
        """End the sandbox as nobody asked for."""
        if isinstance(self.sandbox, LocalSandbox):
            assert self.sandbox.process is not None
            self.sandbox.process.kill()
        else:
            assert isinstance(self.sandbox, DockerSandbox)
            subprocess.run(
                ["docker", "kill", str(self.sandbox.container_name)], check=True, capture_output=True
            )

    def ran(self, name: str = "log") -> int:
        file = self.path / name
        return len(file.read_text().splitlines()) if file.exists() else 0


@pytest.fixture(params=KINDS)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(request.param, tmp_path)
    with made.open:
        yield made


Run = Callable[..., RunResult]


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest, bench: Bench) -> Iterator[Run]:
    """Runs a command in either way: `run(command, key=..., sandbox=...)`."""
    if request.param == "sync":
        yield lambda command, sandbox=None, **options: (sandbox or bench.sandbox).run(command, **options)
        return
    with asyncio.Runner() as runner:

        def arun(command: str, sandbox: ChannelSandbox | None = None, **options: Any) -> RunResult:
            return runner.run((sandbox or bench.sandbox).arun(command, **options))

        yield arun


class TestOnce:
    def test_what_has_ended_is_not_run_again(self, bench: Bench, run: Run) -> None:
        command = "echo x >> log; echo out; echo err >&2; exit 3"
        first = run(command, key="m/1", merge_stderr=False)
        assert (first.output, first.stderr, first.exit_code) == ("out\n", "err\n", 3)
        assert run(command, key="m/1", merge_stderr=False) == first
        assert run(command, key="m/1", merge_stderr=False, sandbox=bench.again()) == first
        assert bench.ran() == 1

    def test_another_key_is_another_command(self, bench: Bench, run: Run) -> None:
        for key in ("m/1", "m/2", "n/1", None, None):
            run("echo x >> log", key=key)
        assert bench.ran() == 5

    def test_a_key_is_for_one_command(self, bench: Bench, run: Run) -> None:
        run("echo x >> log", key="m/1")
        with pytest.raises(KeyReused):
            run("echo y >> log", key="m/1")
        assert bench.ran() == 1

    def test_a_time_out_is_a_result(self, bench: Bench, run: Run) -> None:
        first = run("echo x >> log; sleep 60", key="m/1", timeout=0.5)
        assert first.timed_out
        assert run("echo x >> log; sleep 60", key="m/1", timeout=0.5) == first
        assert bench.ran() == 1

    def test_what_is_recorded_needs_no_sandbox(self, bench: Bench, run: Run) -> None:
        first = run("echo x >> log", key="m/1")
        other = bench.again()
        assert run("echo x >> log", key="m/1", sandbox=other) == first
        assert not other.running

    def test_how_it_is_asked_for_makes_no_difference(self, bench: Bench, run: Run) -> None:
        first = run("echo x >> log; echo hi", key="m/1")
        assert run("echo x >> log; echo hi", key="m/1", timeout=9, on_output=lambda data: None) == first
        assert bench.ran() == 1

    def test_at_once(self, bench: Bench) -> None:
        """One of many runs it; the others are told that it runs, or what came of it."""
        bench.sandbox.run("true")

        def ask(number: int) -> object:
            try:
                return bench.sandbox.run("echo x >> log; sleep 0.2; echo done", key="m/1").output
            except CommandUnderWay as error:
                return type(error)

        with ThreadPoolExecutor(8) as threads:
            told = list(threads.map(ask, range(8)))
        assert set(told) <= {"done\n", CommandUnderWay}
        assert "done\n" in told
        assert bench.ran() == 1


class TestInterrupted:
    async def test_cancelled(self, bench: Bench) -> None:
        task = asyncio.create_task(bench.sandbox.arun("echo x >> log; sleep 60", key="m/1"))
        while not bench.ran():  # noqa: ASYNC110 - a file, which no event tells of
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for sandbox in (bench.sandbox, bench.again()):
            with pytest.raises(CommandInterrupted, match="stopped while it ran"):
                await sandbox.arun("echo x >> log; sleep 60", key="m/1")
        assert bench.ran() == 1

    @pytest.mark.parametrize("moment", range(12))
    async def test_cancelled_at_any_moment(self, bench: Bench, moment: int) -> None:
        """It ran and is reported, or it did not and can be run: never both, never twice."""
        await bench.sandbox.arun("true")
        task = asyncio.create_task(bench.sandbox.arun("echo x >> log", key="m/1"))
        for _ in range(moment):
            await asyncio.sleep(0)
        await asyncio.sleep(moment * 0.0002)
        task.cancel()
        await asyncio.wait([task])
        try:
            await bench.sandbox.arun("echo x >> log", key="m/1")
            assert bench.ran() == 1
        except CommandInterrupted:
            await asyncio.sleep(0.2)
            assert bench.ran() <= 1

    def test_the_sandbox_died(self, bench: Bench, run: Run) -> None:
        command = "echo x >> log; sleep 60"
        run("true")
        threading.Timer(0.5, bench.end).start()
        with pytest.raises(SandboxDied):
            run(command, key="m/1")
        with pytest.raises(CommandInterrupted):
            run(command, key="m/1")
        assert bench.ran() == 1
        assert run("echo on", key="m/2").output == "on\n"


def owner(bench: Bench) -> subprocess.Popen[str]:
    """A program that has run one keyed command, and is in the middle of another; it tells when it is."""
    made = (
        "LocalSandbox(root, records=records, thread=lambda: 't')"
        if bench.kind == "local"
        else f"DockerSandbox(root, image={IMAGE!r}, name='keyed', records=records, thread=lambda: 't')"
        if bench.kind == "docker"
        else "DockerExecutionBackend(root, name='keyed', scope='thread', warm=0, records=records).sandbox"
    )
    script = f"""
        import threading
        from pathlib import Path
        from libs.backends.docker import DockerExecutionBackend
        from libs.sandbox.records import CommandRecords
        from libs.sandbox.container import DockerSandbox
        from libs.sandbox.local import LocalSandbox

        root = Path({str(bench.folder / "w")!r})
        records = CommandRecords(Path({str(bench.folder / "commands.sqlite")!r}))
        sandbox = {made}
        sandbox.run("echo x >> ended; echo ended", key="m/1")
        sandbox.run_python("x = 1; open('block', 'a').write('x\\\\n'); x", session="s", key="m/2")
        sandbox.file("edit", path={bench.inside("file")!r}, old="a", new="ab", replace_all=False, key="m/3")
        print("ready", flush=True)
        show = lambda data: print(data.decode(), end="", flush=True)
        sandbox.run("echo x >> running; echo up; sleep 60", key="m/4", on_output=show)
    """
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_killed_program(bench: Bench) -> None:
    sandbox = bench.sandbox
    sandbox.write_file(bench.inside("file"), b"a\n")
    sandbox.close()
    with owner(bench) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["ready\n", "up\n"]
        os.kill(process.pid, signal.SIGKILL)
    assert sandbox.run("echo x >> ended; echo ended", key="m/1").output == "ended\n"
    block = "x = 1; open('block', 'a').write('x\\n'); x"
    assert sandbox.run_python(block, session="s", key="m/2").output == "1\n"
    edit = {"path": bench.inside("file"), "old": "a", "new": "ab", "replace_all": False}
    assert sandbox.file("edit", key="m/3", **edit) == ({"count": 1}, b"")
    with pytest.raises(CommandInterrupted, match="unknown"):
        sandbox.run("echo x >> running; echo up; sleep 60", key="m/4")
    assert not sandbox.running, "nothing of this needed one"
    assert sandbox.begun(["m/1", "m/2", "m/3", "m/4", "m/5"]) == {"m/1", "m/2", "m/3", "m/4"}
    # The next block is told why the variables of one that was not run again are not there.
    after = sandbox.run_python("print(x)", session="s", key="n/1")
    assert after.output.startswith(
        "[the sandbox was started anew since the last block: its variables are lost]"
    )
    assert after.exit_code == 1
    assert [bench.ran(name) for name in ("ended", "block", "running")] == [1, 1, 1]
    assert (bench.path / "file").read_text() == "ab\n"


class TestBlocks:
    def test_one_that_ended_is_not_run_again(self, bench: Bench) -> None:
        code = "open('log', 'a').write('x\\n')\nx = globals().get('x', 0) + 1\nx"
        first = bench.sandbox.run_python(code, session="s", key="m/0")
        assert first.output == "1\n"
        assert bench.sandbox.run_python(code, session="s", key="m/0") == first
        assert bench.sandbox.run_python("x", session="s", key="m/1").output == "1\n", "nothing is lost here"
        with pytest.raises(KeyReused):
            bench.sandbox.run(code, key="m/0")

    def test_after_a_new_start_the_next_is_told(self, bench: Bench) -> None:
        bench.sandbox.run_python("x = 1", session="s", key="m/0")
        other = bench.again()
        assert other.run_python("x = 1", session="s", key="m/0").exit_code == 0
        assert "variables are lost" in other.run_python("print('on')", session="s", key="m/1").output
        assert other.run_python("print('on')", session="s", key="m/2").output == "on\n"
        assert other.run_python("print('on')", session="new", key="m/3").output == "on\n"


class TestFiles:
    async def test_a_change_is_made_once(self, bench: Bench) -> None:
        path = bench.inside("a.txt")
        new = {"path": path, "replace": False, "content": b"foo\n"}
        more = {"path": path, "old": "foo", "new": "foo\nbar", "replace_all": False}
        for _ in range(2):
            assert (await bench.sandbox.afile("write", key="m/1", **new))[0] == {"size": 4}
            assert bench.sandbox.file("edit", key="m/2", **more)[0] == {"count": 1}
        assert (bench.path / "a.txt").read_text() == "foo\nbar\n"
        for _ in range(2):
            await bench.sandbox.afile("delete", key="m/3", path=path)
        (bench.path / "a.txt").write_text("a person's, made since")
        bench.sandbox.file("delete", key="m/3", path=path)
        assert (bench.path / "a.txt").exists()

    def test_a_refusal_is_an_answer_too(self, bench: Bench) -> None:
        path = bench.inside("a.txt")
        for _ in range(2):
            with pytest.raises(FileFailed) as caught:
                bench.sandbox.file("edit", key="m/1", path=path, old="a", new="b", replace_all=False)
            assert caught.value.code == "file_not_found"
            (bench.path / "a.txt").write_text("a")

    def test_another_content_is_another_change(self, bench: Bench) -> None:
        path = bench.inside("a.txt")
        bench.sandbox.file("write", key="m/1", path=path, replace=False, content=b"one")
        with pytest.raises(KeyReused):
            bench.sandbox.file("write", key="m/1", path=path, replace=False, content=b"two")

    def test_reading_has_no_key(self, bench: Bench) -> None:
        with pytest.raises(ValueError, match="changes something"):
            bench.sandbox.file("read", path=bench.inside("a.txt"), key="m/1")


class TestNotBegun:
    """What could not begin is not on record: it can be run when it can."""

    @pytest.mark.parametrize("way", ["sync", "async"])
    async def test_no_engine(self, tmp_path: Path, way: str) -> None:
        class Unreachable(LocalSandbox):
            def _connect(self) -> Channel:
                if not (tmp_path / "up").exists():
                    raise DockerUnavailable("No Engine answers.", hint="Start it.")
                return super()._connect()

        records = CommandRecords(tmp_path / "commands.sqlite")
        with Unreachable(tmp_path / "w", records=records) as sandbox:
            with pytest.raises(DockerUnavailable):
                sandbox.run("echo hi", key="m/1") if way == "sync" else await sandbox.arun(
                    "echo hi", key="m/1"
                )
            (tmp_path / "up").touch()
            assert sandbox.run("echo hi", key="m/1").output == "hi\n"
        records.close()

    def test_what_cannot_be_a_command(self, tmp_path: Path) -> None:
        records = CommandRecords(tmp_path / "commands.sqlite")
        with LocalSandbox(tmp_path / "w", records=records) as sandbox:
            with pytest.raises(ValueError, match="NUL"):
                sandbox.run("echo \0", key="m/1")
            assert sandbox.run("echo hi", key="m/1").output == "hi\n"
        records.close()

    def test_without_a_record_nothing_begins(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        records = CommandRecords(tmp_path / "file" / "commands.sqlite")
        with LocalSandbox(tmp_path / "w", records=records) as sandbox:
            with pytest.raises(RecordUnavailable, match="Nothing was run"):
                sandbox.run("echo x >> log", key="m/1")
            assert not (tmp_path / "w" / "log").exists()
            assert sandbox.run("echo hi").output == "hi\n"
        records.close()


class TestThreads:
    def test_each_has_its_own_keys(self, tmp_path: Path) -> None:
        thread = "one"
        records = CommandRecords(tmp_path / "commands.sqlite")
        with LocalSandbox(tmp_path, records=records, thread=lambda: thread) as sandbox:
            sandbox.run("echo x >> log", key="m/1")
            thread = "two"
            sandbox.run("echo x >> log", key="m/1")
            assert (tmp_path / "log").read_text() == "x\nx\n"
            records.forget("one")
            sandbox.run("echo x >> log", key="m/1")
            assert (tmp_path / "log").read_text() == "x\nx\n"
        records.close()


def test_a_secret_that_became_known_since_does_not_come_back(tmp_path: Path) -> None:
    records = CommandRecords(tmp_path / "commands.sqlite")
    with LocalSandbox(tmp_path, records=records) as sandbox:
        assert "hunter2hunter2" in sandbox.run("echo hunter2hunter2", key="m/1").output
    known = SecretFilter({"KEY": "hunter2hunter2"})
    with LocalSandbox(tmp_path, records=records, redact=known) as sandbox:
        assert sandbox.run("echo hunter2hunter2", key="m/1").output == "[REDACTED]\n"
        assert sandbox.run("echo hunter2hunter2", key="m/2").output == "[REDACTED]\n"
    records.close()
    kept = [json.loads(line) for line in _results(tmp_path / "commands.sqlite")]
    assert [each["result"]["output"] for each in kept] == ["hunter2hunter2\n", "[REDACTED]\n"]


def _results(path: Path) -> list[str]:
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(path)) as connection:
        return [row for (row,) in connection.execute("SELECT result FROM commands ORDER BY id")]


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[LocalSandbox]:
    records = CommandRecords(tmp_path / "commands.sqlite")
    with LocalSandbox(tmp_path, records=records) as sandbox:
        yield sandbox
    records.close()


async def test_the_event_loop_is_never_blocked(served: LocalSandbox) -> None:
    async def all_of_it() -> None:
        await served.arun("echo hi", key="m/1")
        await served.arun("echo hi", key="m/1")
        await served.arun_python("1", session="s", key="m/2")
        await served.abegun(["m/1"])
        task = asyncio.create_task(served.arun("sleep 9", key="m/3"))
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.wait([task])
        with pytest.raises(CommandInterrupted):
            await served.arun("sleep 9", key="m/3")

    with blockbuster_ctx():
        await all_of_it()


@pytest.mark.docker
async def test_the_backend_tells_the_model(tmp_path: Path) -> None:
    records = CommandRecords(tmp_path / "commands.sqlite")
    calls: list[Callable[[], Awaitable[Any]]]
    with DockerExecutionBackend(tmp_path / "w", name="keyed", records=records) as backend:
        calls = [
            lambda: backend.aexecute("echo x >> log; echo hi"),
            lambda: asyncio.to_thread(backend.execute, "echo x >> log; echo hi"),
        ]
        CALL_KEY.set("m/1")
        for call in calls:
            assert (await call()).output == "hi\n"
        CALL_KEY.set("m/2")
        task = asyncio.create_task(backend.aexecute("sleep 60"))
        await asyncio.sleep(0.5)
        task.cancel()
        await asyncio.wait([task])
        again = await backend.aexecute("sleep 60")
        assert again.exit_code == 125
        assert again.output.startswith("This was stopped while it ran, on purpose")
        assert again.output.endswith("Look at what is there before you repeat anything.")
        CALL_KEY.set("m/3")
        assert (await backend.awrite("/workspace/a.txt", "a")).error is None
        assert (await backend.awrite("/workspace/a.txt", "a")).error is None
        CALL_KEY.set("m/4")
        for _ in range(2):
            assert backend.edit("/workspace/a.txt", "a", "ab").occurrences == 1
        CALL_KEY.set(None)
    assert (tmp_path / "w" / "log").read_text() == "x\n"
    assert (tmp_path / "w" / "a.txt").read_text() == "ab"


def test_it_costs_little(tmp_path: Path) -> None:
    """Only what nobody would accept; figures are printed by `make bench`."""
    records = CommandRecords(tmp_path / "commands.sqlite")
    with LocalSandbox(tmp_path, records=records) as sandbox:
        sandbox.run("true", key="warm")
        began = time.perf_counter()
        for number in range(100):
            sandbox.run("true", key=str(number))
        assert (time.perf_counter() - began) / 100 < 0.1
    records.close()
