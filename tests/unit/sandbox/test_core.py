"""Coroutines run on the loop of another thread, for callers in any loop or thread."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import ContextVar
from pathlib import Path

import pytest

from libs.sandbox.host.local_sandbox import LocalSandbox
from libs.sandbox.host.loop_thread import LoopThread, core, synchronous, until_done
from tests.support.waiting import eventually

WHO: ContextVar[str] = ContextVar("who", default="nobody")


async def thread_and_context() -> tuple[str, str]:
    return threading.current_thread().name, WHO.get()


def test_work_runs_in_the_loop_thread_with_the_context_of_the_caller() -> None:
    loop = LoopThread("other")
    WHO.set("a thread")
    assert loop.wait(thread_and_context()) == ("other", "a thread")
    # The same from an event loop.
    for _ in range(2):
        assert asyncio.run(loop.run(thread_and_context())) == ("other", "a thread")


def test_synchronous_call_on_the_loop_itself_is_refused(tmp_path: Path) -> None:
    with LocalSandbox(tmp_path) as sandbox:
        assert sandbox.run("echo on").output == "on\n"
        for call in (lambda: sandbox.run("true"), sandbox.close, sandbox.reset):

            async def calls(call: Callable[[], object] = call) -> None:
                call()

            with pytest.raises(RuntimeError, match="'sandbox-core' would wait for itself"):
                synchronous(calls)()
        assert sandbox.running


async def test_cancelled_close_returns_when_the_sandbox_is_stopped(tmp_path: Path) -> None:
    sandbox = LocalSandbox(tmp_path)
    await sandbox.astart()
    closing = asyncio.create_task(sandbox.aclose())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert not sandbox.running


async def test_work_cancelled_at_once_ends() -> None:
    for turns in range(1, 5):
        task = asyncio.create_task(core().run(asyncio.sleep(60)))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(asyncio.shield(task), 10)


async def test_cancelled_caller_waits_for_the_end_of_its_work() -> None:
    began, ended = threading.Event(), threading.Event()

    async def work() -> None:
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.2)
            ended.set()

    task = asyncio.create_task(core().run(work()))
    await asyncio.to_thread(began.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_answer_that_is_read_after_the_process_was_stopped_counts() -> None:
    """A stopped process, here a blocked loop, finds the time over before its threads have read anything."""
    answer = Future[None]()
    threading.Timer(0.6, answer.set_result, [None]).start()
    asyncio.get_running_loop().call_soon(time.sleep, 0.5)
    assert await until_done(answer, 0.1)
    assert not await until_done(Future[None](), 0.1)


def test_ctrl_c_ends_the_command_of_a_synchronous_caller(tmp_path: Path) -> None:
    """The command is killed before the caller goes on."""
    program = f"""
import os, sys
from pathlib import Path
from libs.sandbox.host.local_sandbox import LocalSandbox
with LocalSandbox(Path({str(tmp_path)!r})) as sandbox:
    try:
        sandbox.run("echo $$ > pid.new; mv pid.new pid; exec sleep 600")
    except KeyboardInterrupt:
        print(Path("/proc", Path({str(tmp_path)!r}, "pid").read_text().strip()).exists())
        print(sandbox.run("echo on").output)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        eventually((tmp_path / "pid").exists)
        os.kill(process.pid, signal.SIGINT)
        assert process.communicate(timeout=30)[0].split() == ["False", "on"]


def test_forked_child_starts_its_own_loop() -> None:
    assert core().wait(thread_and_context())[0] == "sandbox-core"
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        os._exit(0 if core().wait(thread_and_context())[0] == "sandbox-core" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
