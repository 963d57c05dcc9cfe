"""The time limit of an execution includes all waiting before its program."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from libs.exec_tool import changed_files
from libs.exec_tool import program_visit as visit
from libs.exec_tool.program_runner import CodeRunner
from tests.support.exec_tool.exec_runners import runner, spare_ready

pytestmark = pytest.mark.docker

SLEEP = "import time; print('on', flush=True); time.sleep(60)"


class SlowFiles:
    """A slow database."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def files(self, thread: str) -> Mapping[str, bytes]:
        await asyncio.sleep(self._seconds)
        return {"a": b"1"}

    async def keep(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CodeRunner]:
    with runner(tmp_path_factory.mktemp("exec"), seconds=4, most=1) as made:
        made.run("print(1)")
        yield made


@pytest.mark.thorough
def test_reading_files_uses_the_time(tmp_path: Path) -> None:
    with runner(tmp_path, seconds=4, runner_files=SlowFiles(2)) as run:
        spare_ready(run)
        result = run.run(SLEEP)
    assert result.error and result.metrics.exit_code == 124
    assert result.metrics.run < 3.5
    assert result.metrics.total < 4 + visit.COLLECT_SECONDS


@pytest.mark.thorough
async def test_waiting_for_a_sandbox_uses_the_time(run: CodeRunner) -> None:
    first, second = await asyncio.gather(*(run.arun(SLEEP, thread=thread) for thread in "ab"))
    assert {each.error.kind for each in (first, second) if each.error} == {"timeout"}
    assert sorted((first.stdout, second.stdout))[0] == ""
    assert max(first.metrics.total, second.metrics.total) < 9


@pytest.mark.thorough
def test_program_without_time_left_does_not_start(tmp_path: Path) -> None:
    with runner(tmp_path, seconds=4, runner_files=SlowFiles(30)) as run:
        begun = time.monotonic()
        result = run.run(SLEEP)
        assert time.monotonic() - begun < 7
    assert result.error and "EXEC_SECONDS" in result.error.hint
    assert (result.stdout, result.metrics.exit_code) == ("", None)


def test_collecting_has_its_own_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visit, "COLLECT_SECONDS", 0.001)
    with runner(tmp_path) as run:
        result = run.run("open('x', 'w').close(); print(1)", thread="t")
    assert (result.error, result.result, dict(result.files)) == (None, 1, {})
    assert "that took over 0.001 s" in result.note


@pytest.mark.thorough
def test_small_files_come_back_beside_files_that_take_long_to_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changed_files, "_READ_SECONDS", 2.0)
    code = """
for number in range(3000):
    with open(f"empty {number}", "wb") as file:
        file.truncate(60_000_000)
open("small", "w").write("x")
print(1)
"""
    with runner(tmp_path) as run:
        result = run.run(code, thread="t")
    assert result.files["small"] == b"x"
    read = len(result.files) - 1
    assert read <= 1, "a fast machine reads more in time, but only one has room"
    assert result.note.startswith(f"{3000 - read} of the program's files were not returned: empty ")
