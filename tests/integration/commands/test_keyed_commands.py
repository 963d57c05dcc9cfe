"""An operation with a key runs once, in every kind of sandbox, even if the program is killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx

from libs.backends.docker import DockerExecutionBackend
from libs.redaction import SecretFilter
from libs.sandbox import (
    CommandInterrupted,
    CommandUnderWay,
    DockerUnavailable,
    KeyReused,
    RecordUnavailable,
    SandboxDied,
)
from libs.sandbox.host.call_context import carrying
from libs.sandbox.host.channel import Channel
from libs.sandbox.host.local_sandbox import LocalSandbox
from libs.sandbox.host.records.command_log import CommandRecords
from tests.support.keyed_bench import Bench, owner
from tests.support.sandboxes import IMAGE, NEW_INTERPRETER, RUNTIME
from tests.support.waiting import eventually

THOROUGH = [pytest.mark.docker, pytest.mark.thorough]
COUNT = "echo x >> log"


@pytest.fixture(
    params=["local", pytest.param("docker", marks=THOROUGH), pytest.param("pool", marks=THOROUGH)]
)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(request.param, tmp_path)
    with made.open:
        yield made


@pytest.fixture
def records(tmp_path: Path) -> Iterator[CommandRecords]:
    made = CommandRecords(tmp_path / "commands.sqlite")
    yield made
    made.close()


class TestOnce:
    async def test_ended_command_is_not_run_again(self, bench: Bench) -> None:
        """The recorded result needs no sandbox, whatever the other arguments."""
        command = "echo x >> log; echo out; echo err >&2; exit 3"
        first = bench.sandbox.run(command, key="m/1", merge_stderr=False)
        assert (first.output, first.stderr, first.exit_code) == ("out\n", "err\n", 3)
        assert bench.sandbox.run(command, key="m/1", merge_stderr=False) == first
        other = bench.again()
        assert await other.arun(command, key="m/1", merge_stderr=False, timeout=9, on_output=len) == first
        assert not other.running
        assert bench.ran() == 1

    def test_key_of_another_command_is_refused(self, bench: Bench) -> None:
        bench.sandbox.run(COUNT, key="m/1")
        for command, more in (
            ("echo y >> log", {}),
            (COUNT, {"env": {"V": "1"}}),
            (COUNT, {"merge_stderr": False}),
        ):
            with pytest.raises(KeyReused):
                bench.sandbox.run(command, key="m/1", **more)  # type: ignore[arg-type]
        assert bench.ran() == 1


class TestInterrupted:
    async def test_cancelled_command_is_not_run_again(self, bench: Bench) -> None:
        task = asyncio.create_task(bench.sandbox.arun(f"{COUNT}; sleep 60", key="m/1"))
        while not bench.ran():  # noqa: ASYNC110 - a file has no event
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for sandbox in (bench.sandbox, bench.again()):
            with pytest.raises(CommandInterrupted, match="stopped while it ran"):
                await sandbox.arun(f"{COUNT}; sleep 60", key="m/1")
        assert bench.ran() == 1

    async def test_block_that_was_cancelled_before_its_turn_can_run_again(self, bench: Bench) -> None:
        ask, begun = bench.sandbox.arun_python, threading.Event()
        first = asyncio.create_task(
            ask(
                "print('begun')\nimport time; time.sleep(60)",
                session="s",
                key="m/1",
                on_output=lambda _: begun.set(),
            )
        )
        assert await asyncio.to_thread(begun.wait, 30)
        second = asyncio.create_task(ask("print('ran')", session="s", key="m/2"))
        while len(await bench.sandbox.abegun(["m/1", "m/2"])) < 2:  # noqa: ASYNC110 - a record has no event
            await asyncio.sleep(0.02)
        for task in (second, first):
            await asyncio.sleep(0.2)
            task.cancel()
            await asyncio.wait([task])
        assert await bench.sandbox.abegun(["m/1", "m/2"]) == {"m/1"}
        # A note comes first if the interrupted interpreter was ended, as on a busy machine.
        assert (await ask("print('ran')", session="s", key="m/2")).output.endswith("ran\n")

    async def test_command_cancelled_at_any_moment_runs_at_most_once(self, bench: Bench) -> None:
        """It ran and is reported as interrupted, or it did not run and can run again."""
        await bench.sandbox.arun("true")
        for moment in range(12):
            log, key = f"log{moment}", f"m/{moment}"
            task = asyncio.create_task(bench.sandbox.arun(f"echo x >> {log}", key=key))
            for _ in range(moment):
                await asyncio.sleep(0)
            await asyncio.sleep(moment * 0.0002)
            task.cancel()
            await asyncio.wait([task])
            try:
                await bench.sandbox.arun(f"echo x >> {log}", key=key)
                assert bench.ran(log) == 1
            except CommandInterrupted:
                await asyncio.sleep(0.2)
                assert bench.ran(log) <= 1

    def test_command_of_a_dead_sandbox_is_not_run_again(self, bench: Bench) -> None:
        command = f"{COUNT}; sleep 60"
        bench.sandbox.run("true")
        threading.Thread(target=lambda: (eventually(bench.ran), bench.end())).start()
        with pytest.raises(SandboxDied):
            bench.sandbox.run(command, key="m/1")
        with pytest.raises(CommandInterrupted):
            bench.sandbox.run(command, key="m/1")
        assert bench.ran() == 1
        assert bench.sandbox.run("echo on", key="m/2").output == "on\n"


def test_program_killed_with_sigkill_repeats_nothing(bench: Bench) -> None:
    sandbox = bench.sandbox
    sandbox.write_file(bench.inside("file"), b"a\n")
    sandbox.close()
    with owner(bench) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["ready\n", "up\n"]
        with pytest.raises(CommandUnderWay):
            sandbox.run("echo x >> running; echo up; sleep 60", key="m/4")
        os.kill(process.pid, signal.SIGKILL)
    assert sandbox.run("echo x >> ended; echo ended", key="m/1").output == "ended\n"
    block = "x = 1; open('block', 'a').write('x\\n'); x"
    assert sandbox.run_python(block, session="s", key="m/2").output == "1\n"
    edit = {"path": bench.inside("file"), "old": "a", "new": "ab", "replace_all": False}
    assert sandbox.file("edit", key="m/3", **edit) == ({"count": 1}, b"")
    with pytest.raises(CommandInterrupted, match="unknown"):
        sandbox.run("echo x >> running; echo up; sleep 60", key="m/4")
    assert not sandbox.running, "recorded results need no sandbox"
    assert sandbox.begun(["m/1", "m/2", "m/3", "m/4", "m/5"]) == {"m/1", "m/2", "m/3", "m/4"}
    # The next block gets a note that variables are lost.
    after = sandbox.run_python("print(x)", session="s", key="n/1")
    assert after.output.startswith(NEW_INTERPRETER)
    assert after.exit_code == 1
    assert sandbox.run_python("print('on')", session="s", key="n/2").output == "on\n"
    assert sandbox.run_python("print('on')", session="new", key="n/3").output == "on\n"
    assert [bench.ran(name) for name in ("ended", "block", "running")] == [1, 1, 1]
    assert (bench.path / "file").read_text() == "ab\n"


def test_ended_block_is_not_run_again(bench: Bench) -> None:
    code = "open('log', 'a').write('x\\n')\nx = globals().get('x', 0) + 1\nx"
    first = bench.sandbox.run_python(code, session="s", key="m/0")
    assert first.output == "1\n"
    assert bench.sandbox.run_python(code, session="s", key="m/0") == first
    assert bench.sandbox.run_python("x", session="s", key="m/1").output == "1\n", "no variable is lost"
    with pytest.raises(KeyReused):
        bench.sandbox.run(code, key="m/0")
    with pytest.raises(KeyReused):
        bench.sandbox.run_python(code, session="other", key="m/0")


class TestFiles:
    async def test_file_change_is_made_once(self, bench: Bench) -> None:
        path = bench.inside("a.txt")
        new = {"path": path, "replace": False, "content": b"foo\n"}
        more = {"path": path, "old": "foo", "new": "foo\nbar", "replace_all": False}
        for _ in range(2):
            assert (await bench.sandbox.afile("write", key="m/1", **new))[0] == {"size": 4}
            assert bench.sandbox.file("edit", key="m/2", **more)[0] == {"count": 1}
        assert (bench.path / "a.txt").read_text() == "foo\nbar\n"
        with pytest.raises(KeyReused):
            bench.sandbox.file("write", key="m/1", path=path, replace=False, content=b"two")
        for _ in range(2):
            await bench.sandbox.afile("delete", key="m/3", path=path)
        (bench.path / "a.txt").write_text("a person's, made since")
        bench.sandbox.file("delete", key="m/3", path=path)
        assert (bench.path / "a.txt").exists()
        with pytest.raises(ValueError, match="changes something"):
            bench.sandbox.file("read", path=path, key="m/4")


class TestNotBegun:
    """An operation that did not begin has no record and can run later."""

    def test_command_that_did_not_begin_can_run_later(self, tmp_path: Path, records: CommandRecords) -> None:
        class Unreachable(LocalSandbox):
            def _connect(self) -> Channel:
                if not (tmp_path / "up").exists():
                    raise DockerUnavailable("No Engine answers.", hint="Start it.")
                return super()._connect()

        with Unreachable(tmp_path / "w", records=records) as sandbox:
            with pytest.raises(DockerUnavailable):
                sandbox.run("echo hi", key="1")
            (tmp_path / "up").touch()
            assert sandbox.run("echo hi", key="1").output == "hi\n"
            with pytest.raises(ValueError, match="NUL"):
                sandbox.run("echo \0", key="2")
            assert sandbox.run("echo hi", key="2").output == "hi\n"

    def test_command_does_not_begin_without_a_record(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        records = CommandRecords(tmp_path / "file" / "commands.sqlite")
        with LocalSandbox(tmp_path / "w", records=records) as sandbox:
            with pytest.raises(RecordUnavailable, match="Nothing was run"):
                sandbox.run(COUNT, key="m/1")
            assert not (tmp_path / "w" / "log").exists()
            assert sandbox.run("echo hi").output == "hi\n"
        records.close()


def test_each_thread_has_its_own_keys(tmp_path: Path, records: CommandRecords) -> None:
    thread = "one"
    with LocalSandbox(tmp_path, records=records, thread=lambda: thread) as sandbox:
        sandbox.run(COUNT, key="m/1")
        thread = "two"
        sandbox.run(COUNT, key="m/1")
        assert (tmp_path / "log").read_text() == "x\nx\n"
        asyncio.run(records.forget("one"))
        sandbox.run(COUNT, key="m/1")
        assert (tmp_path / "log").read_text() == "x\nx\n"


def test_recorded_result_is_redacted_with_new_secrets(tmp_path: Path, records: CommandRecords) -> None:
    with LocalSandbox(tmp_path, records=records) as sandbox:
        assert "hunter2hunter2" in sandbox.run("echo hunter2hunter2", key="m/1").output
    known = SecretFilter({"KEY": "hunter2hunter2"})
    with LocalSandbox(tmp_path, records=records, redact=known) as sandbox:
        assert sandbox.run("echo hunter2hunter2", key="m/1").output == "[REDACTED]\n"
        assert sandbox.run("echo hunter2hunter2", key="m/2").output == "[REDACTED]\n"
    with closing(sqlite3.connect(tmp_path / "commands.sqlite")) as connection:
        kept = [json.loads(row) for (row,) in connection.execute("SELECT result FROM commands ORDER BY id")]
    assert [each["result"]["output"] for each in kept] == ["hunter2hunter2\n", "[REDACTED]\n"]


async def test_event_loop_is_never_blocked(tmp_path: Path, records: CommandRecords) -> None:
    async def all_of_it(sandbox: LocalSandbox) -> None:
        await sandbox.arun("echo hi", key="m/1")
        await sandbox.arun("echo hi", key="m/1")
        await sandbox.arun_python("1", session="s", key="m/2")
        await sandbox.abegun(["m/1"])
        begun, loop = asyncio.Event(), asyncio.get_running_loop()
        show = lambda _: loop.call_soon_threadsafe(begun.set)  # noqa: E731
        task = asyncio.create_task(sandbox.arun("echo on; sleep 9", key="m/3", on_output=show))
        await asyncio.wait_for(begun.wait(), 30)
        task.cancel()
        await asyncio.wait([task])
        with pytest.raises(CommandInterrupted):
            await sandbox.arun("echo on; sleep 9", key="m/3")

    with LocalSandbox(tmp_path, records=records) as sandbox, blockbuster_ctx():
        await all_of_it(sandbox)


@pytest.mark.docker
async def test_backend_reports_an_interrupted_call_to_the_model(
    tmp_path: Path, records: CommandRecords
) -> None:
    with DockerExecutionBackend(
        tmp_path / "w", name="keyed", image=IMAGE, runtime=RUNTIME, records=records
    ) as backend:
        with carrying("1", "m/1"):
            assert (await backend.aexecute("echo x >> log; echo hi")).output == "hi\n"
            assert backend.execute("echo x >> log; echo hi").output == "hi\n"
        with carrying("2", "m/2") as call:
            task = asyncio.create_task(backend.aexecute("touch begun; sleep 60"))
            await asyncio.to_thread(eventually, (tmp_path / "w" / "begun").exists)
            task.cancel()
            await asyncio.wait([task])
            assert call.artifact is None, "a cancelled call has no result"
            again = await backend.aexecute("touch begun; sleep 60")
            assert call.artifact is not None
            assert (call.artifact["exit_code"], call.artifact["output"]) == (125, again.output)
        assert again.exit_code == 125
        assert again.output.startswith("This call was stopped while it ran")
        assert again.output.endswith("Look at what is there before you repeat anything.")
        with carrying("3", "m/3"):
            for _ in range(2):
                assert (await backend.awrite("/workspace/a.txt", "a")).error is None
        with carrying("4", "m/4"):
            for _ in range(2):
                assert backend.edit("/workspace/a.txt", "a", "ab").occurrences == 1
    assert (tmp_path / "w" / "log").read_text() == "x\n"
    assert (tmp_path / "w" / "a.txt").read_text() == "ab"
