"""Calls that run between two captures: their effects, and the undo."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from libs.middleware.approvals.effects import free_changes
from libs.persistence.thread_database import SqliteDatabase
from libs.sandbox import RunResult
from libs.sandbox.host import CommandRecords
from libs.workspace.history import AskFirst, Effect, EffectRuns, WorkspaceLocks
from tests.support.programs import python
from tests.support.waiting import eventually
from tests.support.workspaces.captured_threads import CapturedThreads, later

COMMAND = "rm -rf gone; echo 2 > changed; echo ran >> log; [ ! -e wait ] || sleep 60"

KILLED = """
import asyncio, os, signal
from pathlib import Path
from libs.persistence.thread_database import SqliteDatabase
from tests.unit.approvals.test_effect_runs import COMMAND, Calls

def kill(*given, **named):
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    folder = Path(os.environ["FOLDER"])
    shared = bool(os.environ["SHARED"])
    with Calls(folder, SqliteDatabase(folder / "threads.sqlite"), shared=shared) as calls:
        if os.environ["MOMENT"] == "during":
            asyncio.get_running_loop().create_task(watch(calls.threads.path("log")))
        else:
            calls.runs._effect = kill
        await calls.run(COMMAND)

async def watch(log):
    while not log.exists():
        await asyncio.sleep(0.01)
    kill()

asyncio.run(main())
"""


class Calls:
    """Calls of threads, each of which runs at once."""

    def __init__(self, folder: Path, database: SqliteDatabase, *, shared: bool = False) -> None:
        self.threads = CapturedThreads(
            folder, database, shared=shared, records=CommandRecords(folder / "commands.sqlite")
        )
        captures = self.threads.history.captures
        captures.locks = WorkspaceLocks(folder / "locks")
        self.runs = EffectRuns(captures, free_changes(["/results/**"]))

    def __enter__(self) -> Calls:
        self.threads.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.threads.__exit__()

    async def found(self, command: str, thread: str = "t", *, key: str = "key") -> Effect | AskFirst:
        await self.threads.history.captures.begin_turn(thread)
        return await self.runs.run(thread, key, partial(self.threads.alone, command, thread, key=key))

    async def run(self, command: str, thread: str = "t", *, key: str = "key") -> Effect:
        found = await self.found(command, thread, key=key)
        assert isinstance(found, Effect), found
        return found


@pytest.fixture
def calls(tmp_path: Path, database: SqliteDatabase, request: pytest.FixtureRequest) -> Iterator[Calls]:
    with Calls(tmp_path, database, shared=bool(getattr(request, "param", False))) as made:
        yield made


shared = pytest.mark.parametrize("calls", [True], indirect=True, ids=["shared"])


async def test_effect_is_listed_and_undone(calls: Calls) -> None:
    kept, gone = calls.threads.path("data/kept"), calls.threads.path("data/gone")
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"\0kept")
    gone.write_bytes(b"gone")
    gone.chmod(0o640)
    times = kept.stat().st_mtime_ns, gone.stat().st_mtime_ns
    effect = await calls.run("echo changed > data/kept; rm data/gone; mkdir data/d; echo new > data/d/new")
    assert effect.difference.created == ("/data/d", "/data/d/new")
    assert effect.difference.changed == ("/data/kept",)
    assert effect.difference.deleted == ("/data/gone",)
    undone = await calls.runs.undo("t", "key", effect)
    assert (undone.difference, undone.kept) == (effect.difference, {})
    assert (kept.read_bytes(), gone.read_bytes()) == (b"\0kept", b"gone")
    assert (kept.stat().st_mtime_ns, gone.stat().st_mtime_ns) == times
    assert gone.stat().st_mode & 0o777 == 0o640
    assert not calls.threads.path("data/d").exists()


async def test_free_effect(calls: Calls) -> None:
    effect = await calls.run(
        "mkdir -p results/a; echo > results/a/b; echo 2 > results/a/b; chmod +x results/a/b"
    )
    assert effect.free
    assert not (await calls.run("mkfifo results/pipe", key="other")).free


@shared
async def test_changes_of_a_person_are_kept(calls: Calls) -> None:
    for name in ("own", "before", "during", "after"):
        calls.threads.path(name).parent.mkdir(parents=True, exist_ok=True)
        calls.threads.path(name).write_text("first")
    await calls.threads.turn("true")
    calls.threads.path("before").write_text("person")
    await later()

    async def person() -> None:
        await asyncio.to_thread(eventually, calls.threads.path("begun").exists)
        calls.threads.path("during").write_text("person")

    waits = "while [ $(cat during) = first ]; do sleep 0.01; done"
    effect, _ = await asyncio.gather(
        calls.run(f"touch begun; echo 2 > own; {waits}; echo 2 > after; sleep 0.05"), person()
    )
    assert effect.difference.changed == ("/workspace/after", "/workspace/during", "/workspace/own")
    await later()
    calls.threads.path("after").write_text("person")
    undone = await calls.runs.undo("t", "key", effect)
    assert calls.threads.files() == {"own": "first", "before": "person", "during": "first", "after": "person"}
    assert undone.kept.keys() == {"/workspace/after"}
    during = await calls.runs.read(effect.after, "/workspace/during")
    assert during == b"person"


async def test_undone_call_is_not_undone_again(calls: Calls) -> None:
    calls.threads.path("a").parent.mkdir(parents=True)
    calls.threads.path("a").write_text("1")
    effect = await calls.run("echo 2 > a")
    first = await calls.runs.undo("t", "key", effect)
    calls.threads.path("a").write_text("2\n")
    assert await calls.runs.undo("t", "key", effect) == first
    assert calls.threads.files()["a"] == "2\n"


async def test_cancelled_call_is_undone(calls: Calls) -> None:
    calls.threads.path("a").parent.mkdir(parents=True)
    calls.threads.path("a").write_text("1")
    running = asyncio.ensure_future(calls.run("rm a; touch begun; sleep 60"))
    await asyncio.to_thread(eventually, calls.threads.path("begun").exists)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    assert calls.threads.files() == {"a": "1"}
    # If the run goes on, nobody is asked about what a person has changed since.
    calls.threads.path("a").write_text("2")
    effect = await calls.run("rm a; touch begun; sleep 60")
    assert effect.free
    assert not effect.difference


async def test_end_of_a_call_whose_sandbox_died_is_unknown(calls: Calls) -> None:
    effect = await calls.run("mkdir -p results/a; kill -9 $(ps -o ppid= $PPID); sleep 20")
    assert "/results/a" in effect.difference.created
    assert effect.result.interrupted
    assert not effect.free


async def test_what_a_call_leaves_running_is_ended_before_the_capture(calls: Calls) -> None:
    left = "(setsid sh -c 'while :; do echo x >> ticks; sleep 0.01; done' > /dev/null 2>&1 &)"
    effect = await calls.run(f"{left}; while [ ! -e ticks ]; do sleep 0.01; done")
    size = calls.threads.path("ticks").stat().st_size
    assert effect.difference.created == ("/workspace/ticks",)
    assert len(await calls.runs.read(effect.after, "/workspace/ticks") or b"") == size
    await calls.runs.undo("t", "key", effect)
    await later()
    assert not calls.threads.path("ticks").exists()


@shared
async def test_late_change_of_what_a_call_leaves_running_is_undone(calls: Calls) -> None:
    """Between the end of the command and the end of what is left of it."""

    async def run() -> RunResult:
        result = await calls.threads.alone("true", "t", key="key")
        await asyncio.sleep(0.1)  # longer than the clock of the files may be late
        calls.threads.path("late").write_text("late")
        return result

    await calls.threads.history.captures.begin_turn("t")
    effect = await calls.runs.run("t", "key", run)
    assert isinstance(effect, Effect)
    assert effect.difference.created == ("/workspace/late",)
    assert (await calls.runs.undo("t", "key", effect)).kept == {}
    assert not calls.threads.path("late").exists()


async def test_shell_that_waits_for_the_next_command_does_nothing_for_a_call(calls: Calls) -> None:
    """A call writes a command of its own to a shell in which no command has begun, and ends."""
    calls.threads.path("go").parent.mkdir(parents=True)
    late = "echo fed > fed; while [ ! -e go ]; do sleep 0.01; done; echo > late"
    shells = "$(pgrep -P $(pgrep -d, -P $(ps -o ppid= -p $PPID)) -x bash | grep -vx $$)"
    feed = f"for shell in {shells}; do printf '{late}\\0' > /proc/$shell/fd/9; done 2> /dev/null"
    effect = await calls.run(f"until [ -e fed ]; do {feed}; sleep 0.05; done")
    assert effect.difference.created == ("/workspace/fed",)
    calls.threads.path("go").touch()
    await later()
    assert await calls.threads.output("echo next") == "next\n"
    assert calls.threads.files().keys() == {"fed", "go"}


async def test_call_cannot_limit_its_own_undo(calls: Calls) -> None:
    calls.threads.path("data/gone").parent.mkdir(parents=True)
    calls.threads.path("data/gone").write_text("gone")
    workers = "$(pgrep -P $(ps -o ppid= -p $PPID) python)"
    limits = f"for worker in {workers}; do prlimit --pid $worker --fsize=0 --nofile=3; done"
    effect = await calls.run(f"rm data/gone; {limits}")
    undone = await calls.runs.undo("t", "key", effect)
    assert (undone.kept, calls.threads.files()) == ({}, {"data/gone": "gone"})


@shared
async def test_commands_of_a_workspace_run_one_at_a_time(calls: Calls) -> None:
    once = "[ ! -e busy ] || touch overlap; touch busy; sleep 0.1; rm busy"
    for thread in "tu":
        await calls.threads.turn("true", thread=thread)
    await asyncio.gather(
        calls.run(once, "t"),
        calls.threads.command(once, "t"),
        calls.threads.command(once, "u"),
        calls.run(once, "u"),
    )
    assert calls.threads.files() == {}


async def test_lock_of_a_workspace_keeps_other_programs_out(tmp_path: Path) -> None:
    here, there = WorkspaceLocks(tmp_path), WorkspaceLocks(tmp_path)
    async with here.held("w"):
        async with here.held("w"), there.held("another"):
            pass
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1), there.held("w"):
                pass
    async with there.held("w"):
        pass


@pytest.mark.parametrize(
    ("moment", "shared"),
    [
        ("during", True),
        pytest.param("after", True, marks=pytest.mark.thorough),
        pytest.param("during", False, marks=pytest.mark.thorough),
        pytest.param("after", False, marks=pytest.mark.thorough),
    ],
)
async def test_killed_program_is_asked_for_the_same_effect(
    tmp_path: Path, database: SqliteDatabase, moment: str, shared: bool
) -> None:
    before = {"gone/a": "gone", "changed": "1"} | ({"wait": ""} if moment == "during" else {})
    for name, content in before.items():
        path = tmp_path / "workspaces" / ("shared" if shared else "t") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    with python(KILLED, FOLDER=str(tmp_path), MOMENT=moment, SHARED="1" if shared else "") as program:
        try:
            _, errors = program.communicate(timeout=60)
        finally:
            program.kill()
    assert program.returncode == -signal.SIGKILL, errors
    with Calls(tmp_path, database, shared=shared) as calls:
        assert await calls.runs.begun("t", ["key", "other"]) == {"key"}
        effect = await calls.run(COMMAND)
        assert (effect.result.interrupted is not None) is (moment == "during")
        assert not effect.free
        assert effect.difference.created == ("/workspace/log",)
        assert effect.difference.deleted == ("/workspace/gone", "/workspace/gone/a")
        assert calls.threads.files()["log"] == "ran\n"
        undone = await calls.runs.undo("t", "key", effect, rejected=True)
        assert (undone.kept, calls.threads.files()) == ({}, before)


@pytest.mark.thorough
async def test_new_task_keeps_what_a_person_may_have_changed_since_a_kill(
    tmp_path: Path, database: SqliteDatabase
) -> None:
    """Nobody has seen the effect of the call that was cut off in the shared workspace."""
    workspace = tmp_path / "workspaces" / "shared"
    workspace.mkdir(parents=True)
    (workspace / "wait").touch()
    with python(KILLED, FOLDER=str(tmp_path), MOMENT="during", SHARED="1") as program:
        program.communicate(timeout=60)
    (workspace / "changed").write_text("by a person")
    with Calls(tmp_path, database, shared=True) as calls:
        await calls.runs.lapse("t")
        assert calls.threads.files()["changed"] == "by a person"
