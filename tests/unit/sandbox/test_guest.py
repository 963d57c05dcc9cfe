"""Inside the container: the start, how a request ended, and which processes an interrupt ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from libs.sandbox.guest.interpreter import block_calls, block_figures
from libs.sandbox.guest.workers.children import Job
from libs.sandbox.guest.workers.kill_process_trees import children_of, descendants, moment
from libs.sandbox.host.requests import Answer, Call, run_result
from libs.sandbox.image_contents import write_guest
from libs.sandbox.limits import SandboxLimits
from libs.sandbox.wire.frames import REQUEST, Ending, Worker
from libs.sandbox.wire.messages import BlockRequest

WHILE_A_SANDBOX_STARTS = {
    *("__future__", "_collections_abc", "_ctypes", "_struct", "errno", "fcntl", "genericpath", "libs"),
    *("os", "os.path", "posixpath", "resource", "select", "stat", "_stat", "struct"),
    *("libs.sandbox", "libs.sandbox.guest", "libs.sandbox.guest.workers", "libs.sandbox.wire"),
    *(f"libs.sandbox.wire.{name}" for name in ("frames", "messages")),
    *(f"libs.sandbox.guest.{name}" for name in ("boot", "guest_stdio", "seccomp", "supervisor", "worker")),
    "libs.sandbox.guest.worker_pool",
    *(
        f"libs.sandbox.guest.workers.{name}"
        for name in ("background", "capture", "children", "command_worker", "frame_pipes")
    ),
    *(
        f"libs.sandbox.guest.workers.{name}"
        for name in (
            "output_limit",
            "kill_process_trees",
            "memory_kills",
            "removed_folders",
            "process_limit",
            "room",
            "process_worker",
            "shells",
            "skill_commands",
            "spill",
        )
    ),
}
"""Modules of a start. Importing `signal`, `ctypes`, `enum` or `typing` takes longer than their use."""

BLOCK = REQUEST.pack(Worker.PYTHON, 1.0) + BlockRequest(b"s", b"", 1000, False).encode()
COMMAND = REQUEST.pack(Worker.RUN, 1.0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_guest(tmp_path)
    return tmp_path


def inside(folder: Path, program: str, **environment: str) -> str:
    """Run a program that can import the guest's modules. Return its output."""
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.append({str(folder)!r})\n{program}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        text=True,
        timeout=30,
        env={"PATH": os.defpath, **environment},
    ).stdout


def test_start_loads_only_the_modules_of_the_first_command(folder: Path) -> None:
    program = """
before = set(sys.modules)
import libs.sandbox.guest.boot, libs.sandbox.guest.supervisor
import libs.sandbox.guest.workers.command_worker
print(*sys.modules.keys() - before)
"""
    assert set(inside(folder, program).split()) == WHILE_A_SANDBOX_STARTS


def test_worker_that_was_ended_gets_no_other_request(folder: Path) -> None:
    """A cancelled request may end by itself before its worker has noticed."""
    program = """
import select
from libs.sandbox.guest.worker_pool import WorkerPool
from libs.sandbox.wire.frames import Worker
pool = WorkerPool(select.poll(), tuple, tuple)
worker = pool.take(Worker.FILE)
pool.dismiss(worker)
pool.rest(worker)
other = pool.take(Worker.FILE)
print(other is not worker)
pool.dismiss(other)
"""
    assert inside(folder, program) == "True\n"


def test_burst_leaves_a_limited_number_of_idle_workers(folder: Path) -> None:
    """Otherwise they would hold the processes that a burst of another kind needs."""
    program = """
import select
from libs.sandbox.guest.worker_pool import WorkerPool
from libs.sandbox.wire.frames import Worker
pool = WorkerPool(select.poll(), tuple, tuple)
workers = [pool.take(Worker.FILE) for _ in range(30)]
for worker in workers:
    pool.rest(worker)
print([worker.given_up for worker in workers].count(True))
for worker in workers:
    pool.dismiss(worker)
"""
    assert inside(folder, program) == "6\n"


def test_block_does_not_get_an_interpreter_that_the_supervisor_has_killed(folder: Path) -> None:
    """A cancelled block may report its end right before its worker is killed. A zombie has limits, too."""
    program = """
import os, select
from libs.sandbox.guest.worker_pool import WorkerPool
pool = WorkerPool(select.poll(), tuple, tuple)
worker = pool.keeper(b"session")
print(pool.keeper(b"session") is worker, end=" ")
worker.kill()
os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
other = pool.keeper(b"session")
print(other is not worker, end=" ")
pool.bury(worker)
print(pool.keeper(b"session") is other)
pool.dismiss(other)
"""
    assert inside(folder, program) == "True True True\n"


def test_failed_start_of_a_worker_leaves_no_descriptor_open(folder: Path) -> None:
    program = """
import os, resource
from libs.sandbox.guest.worker import fork_worker
held = len(os.listdir("/proc/self/fd"))
for free in range(4):
    resource.setrlimit(resource.RLIMIT_NOFILE, (held - 1 + free, 64))
    print(fork_worker(1, ()), end=" ")
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
print(len(os.listdir("/proc/self/fd")) - held)
"""
    assert inside(folder, program) == "None None None None 0\n"


@pytest.mark.parametrize(
    ("request_", "ended_by", "killed", "reported", "ending"),
    [
        (BLOCK, None, False, Ending.DONE, Ending.DONE),
        (BLOCK, Ending.TIMEOUT, False, Ending.DONE, Ending.DONE),  # the block had ended just before
        (BLOCK, Ending.TIMEOUT, False, Ending.TIMEOUT, Ending.TIMEOUT),
        (BLOCK, Ending.TIMEOUT, False, Ending.WAITED, Ending.WAITED),
        (BLOCK, Ending.TIMEOUT, False, Ending.LOST, Ending.ENDED),
        (BLOCK, Ending.TIMEOUT, True, Ending.TIMEOUT, Ending.ENDED),  # killed after its answer
        (BLOCK, Ending.TIMEOUT, True, Ending.DONE, Ending.ENDED),
        (BLOCK, Ending.CANCELLED, True, Ending.CANCELLED, Ending.CANCELLED),
        (COMMAND, Ending.TIMEOUT, False, Ending.DONE, Ending.TIMEOUT),
        (BLOCK, Ending.TIMEOUT, False, Ending.MEMORY, Ending.ENDED),
        (COMMAND, None, False, Ending.LOST, Ending.LOST),
    ],
)
def test_variables_are_kept_only_if_the_supervisor_has_not_killed_the_interpreter(
    request_: bytes, ended_by: int | None, killed: bool, reported: int, ending: int
) -> None:
    job = Job(1, request_)
    job.ended_by, job.killed = ended_by, killed
    assert job.ending(reported) == ending


@pytest.mark.parametrize(
    ("kills", "cause"), [(1, "by this command, or by another command or block"), (2, "and the kernel")]
)
def test_killed_worker_of_a_command_says_whether_memory_was_used_up(
    folder: Path, kills: int, cause: str
) -> None:
    program = f"""
from types import SimpleNamespace
from libs.sandbox.guest import supervisor
from libs.sandbox.guest.workers.children import Job
supervisor.memory_kills = lambda: 1
served = supervisor.Supervisor(None)
served._workers.send = lambda *_: None
served._give(SimpleNamespace(kind=0, stopped=False), job := Job(1, {COMMAND!r}))
supervisor.memory_kills = lambda: {kills}
print(supervisor._why_lost(job, 9, limited=False))
"""
    answer = Answer(int(inside(folder, program)), b"")
    result = run_result(SandboxLimits(), Call(1, b"", None), answer, 1.0)
    assert result.output.startswith(f"[the process that ran it was killed, {cause}")


def test_process_started_just_before_a_moment_is_older() -> None:
    for _ in range(10):
        with subprocess.Popen(["sleep", "60"]) as older:
            since = moment()
            with subprocess.Popen(["sleep", "60"]) as younger:
                try:
                    found = descendants(os.getpid(), since=since)
                    assert younger.pid in found
                    assert older.pid not in found
                finally:
                    younger.kill()
                    older.kill()


def test_what_an_older_process_has_started_since_a_moment_is_left_out() -> None:
    loop = ["bash", "-c", "read; sleep 60; true"]
    with subprocess.Popen(loop, stdin=subprocess.PIPE, text=True, bufsize=1) as older:
        assert older.stdin
        since = moment()
        older.stdin.write("\n")
        try:
            deadline = time.monotonic() + 10
            while not children_of(older.pid) and time.monotonic() < deadline:
                time.sleep(0.01)
            (started,) = children_of(older.pid)
            assert started not in descendants(os.getpid(), since=since)
            assert started in descendants(os.getpid(), since=since, spared=(older.pid,))
        finally:
            for pid in descendants(os.getpid()):
                os.kill(pid, 9)


def test_figure_does_not_replace_one_of_another_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure = SimpleNamespace(savefig=lambda to, **_: to.write(b"mine"))
    shown: list[str] = []
    plt = SimpleNamespace(get_fignums=lambda: [1], figure=lambda _: figure, close=lambda _: None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", plt)  # type: ignore[arg-type]
    monkeypatch.setattr(block_figures, "_FOLDER", str(tmp_path))
    (tmp_path / "figure-1.png").write_bytes(b"of another session")
    block_figures.Figures(shown.append).save()
    assert shown == [f"[figure saved: {tmp_path}/figure-2.png]\n"]
    assert (tmp_path / "figure-1.png").read_bytes() == b"of another session"
    assert (tmp_path / "figure-2.png").read_bytes() == b"mine"


def test_signals_that_cannot_be_held_are_delivered(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when no memory is left. The interpreter goes on, instead of trying for ever."""

    def refuse(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as full:
        full.setattr(block_calls, "_set_mask", refuse)
        signals = block_calls.Signals()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    signals.let_in()
    signals.release()
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


@pytest.mark.parametrize("removed_before", [False, True])
def test_forked_process_knows_that_the_workspace_was_removed(tmp_path: Path, *, removed_before: bool) -> None:
    folder = tmp_path / "workspace"
    folder.mkdir()
    program = f"""if True:
        import os, sys
        if {removed_before}:
            os.rmdir(os.getcwd())
        from libs.sandbox.guest.workers.removed_folders import workspace_is_removed
        print(workspace_is_removed(), flush=True)
        if not {removed_before}:
            os.rmdir(os.getcwd())
        if os.fork() == 0:
            print(workspace_is_removed(), flush=True)
        else:
            os.wait()
    """
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{removed_before}\nTrue\n"
