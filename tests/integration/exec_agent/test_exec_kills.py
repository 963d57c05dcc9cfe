"""The container is removed however a program ends, and no program runs twice."""

from __future__ import annotations

import asyncio
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from agent.settings import ROOT
from libs.sandbox.docker.engine import shared_client
from libs.sandbox.host.records.command_log import CommandRecords
from tests.support.exec_tool.exec_runners import containers, runner
from tests.support.waiting import eventually

pytestmark = pytest.mark.docker

NAME = f"test-exec-{secrets.token_hex(3)}"
SLEEP = "import time; print('on', flush=True); time.sleep(60)"


class TestContainerIsRemoved:
    @pytest.mark.parametrize(
        "code",
        [
            "1/0",
            "import os; os.kill(os.getppid(), 9)",
            pytest.param("while True: pass", marks=pytest.mark.thorough),
        ],
    )
    def test_after_the_end(self, tmp_path: Path, code: str) -> None:
        name = f"{NAME}-left"
        with runner(tmp_path, name=name, seconds=3, warm=0) as run:
            run.run(code)
            eventually(lambda: containers(name) == [])

    async def test_after_a_cancellation(self, tmp_path: Path) -> None:
        name, seen = f"{NAME}-cancel", asyncio.Event()
        loop = asyncio.get_running_loop()
        with runner(tmp_path, name=name, warm=0) as run:
            begun = lambda _: loop.call_soon_threadsafe(seen.set)  # noqa: E731
            work = asyncio.create_task(run.arun(SLEEP, on_output=begun))
            await asyncio.wait_for(seen.wait(), 30)
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
            await asyncio.to_thread(eventually, lambda: containers(name) == [])

    def test_after_a_kill_of_the_host(self, tmp_path: Path) -> None:
        name = f"{NAME}-killed"
        killed_host(tmp_path, f"name={name!r}, keep=False", "")
        # A spare may stay in state "Created" until the next start of a sandbox removes it.
        eventually(lambda: containers(name, running=True) == [])


@pytest.mark.parametrize(("thread", "keeps"), [("", False), ("1", True)])
async def test_output_of_a_program_whose_sandbox_is_killed_is_returned(
    tmp_path: Path, thread: str, keeps: bool
) -> None:
    name, live = f"{NAME}-dies", bytearray()
    with runner(tmp_path, name=name, warm=0) as run:
        work = asyncio.create_task(run.arun(SLEEP, thread=thread, on_output=live.extend))
        await asyncio.to_thread(eventually, lambda: live == b"on\n")
        shared_client().api.kill(containers(name, running=True)[0])
        result = await work
    assert result.error
    assert (result.error.kind, result.stdout) == ("sandbox", "on\n")
    assert "look there before repeating the program" in result.error.hint
    assert ("The thread keeps its files as they were before the program" in result.error.hint) == keeps


def killed_host(folder: Path, options: str, given: str) -> None:
    """Kill a host process while its program runs."""
    code = f"""
from pathlib import Path
from libs.sandbox.host.records.command_log import CommandRecords
from tests.support.exec_tool.exec_runners import runner
root = Path({str(folder)!r})
with runner(root, {options}) as run:
    run.run({SLEEP!r}, on_output=lambda data: print("on", flush=True), {given})
"""
    host = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE)
    assert host.stdout and host.stdout.readline() == b"on\n"
    host.kill()
    host.wait()
    host.stdout.close()


class TestRunsOnce:
    """A run that is repeated after a kill runs no program twice."""

    @pytest.mark.thorough
    def test_same_key_gives_the_recorded_result(self, tmp_path: Path) -> None:
        code = "import time; open('x', 'w').write('1'); print(time.time())"
        with runner(tmp_path, runner_records=CommandRecords(tmp_path / "records.sqlite")) as run:
            first = run.run(code, thread="1", key="k")
            again = run.run(code, thread="1", key="k")
            assert (again.result, again.files) == (first.result, {"x": b"1"})
            assert run.run(code, thread="1", key="other").result != first.result
            assert run.run(code, thread="2", key="k").result != first.result
            error = run.run("print(2)", thread="1", key="k").error
            assert error and error.kind == "sandbox", "another program has another key"
        with runner(tmp_path, keep=False, runner_records=CommandRecords(tmp_path / "more.sqlite")) as run:
            first = run.run(code, key="k")
            again = run.run(code, key="k")
            assert (again.result, again.files) == (first.result, {"x": b"1"})

    def test_interrupted_program_is_not_repeated(self, tmp_path: Path) -> None:
        records = 'runner_records=CommandRecords(root / "r.sqlite")'
        killed_host(tmp_path, f"name={NAME + '-once'!r}, {records}", "thread='1', key='k'")
        with runner(tmp_path, runner_records=CommandRecords(tmp_path / "r.sqlite")) as run:
            result = run.run(SLEEP, thread="1", key="k")
        assert result.error and result.error.kind == "interrupted"
        assert "Look at what is there" in result.error.hint
