"""One time for an execution: whatever it waits for before its program is taken off that (X7)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping

import pytest

from libs.exec_tool import visit
from libs.exec_tool.runner import CodeRunner, NoFiles
from tests.integration.exec_runners import runner

pytestmark = pytest.mark.docker

SLEEP = "import time; print('on', flush=True); time.sleep(60)"


class SlowFiles(NoFiles):
    """A database that takes its time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def files(self, thread: str) -> Mapping[str, bytes]:
        await asyncio.sleep(self._seconds)
        return {"a": b"1"}


@pytest.fixture
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CodeRunner]:
    with runner(tmp_path_factory.mktemp("exec"), seconds=8, most=1) as made:
        made.run("print(1)")
        yield made


def test_reading_the_files_of_the_thread(run: CodeRunner) -> None:
    run._files = SlowFiles(5)
    result = run.run(SLEEP)
    assert result.error and result.error.kind == "timeout"
    assert result.metrics.run < 3.5
    assert result.metrics.total < 8 + visit.COLLECT_SECONDS


async def test_waiting_for_a_sandbox(run: CodeRunner) -> None:
    first, second = await asyncio.gather(run.arun(SLEEP), run.arun(SLEEP))
    assert {each.error.kind for each in (first, second) if each.error} == {"timeout"}
    assert sorted((first.stdout, second.stdout))[0] == ""
    assert max(first.metrics.total, second.metrics.total) < 14


def test_nothing_is_begun_that_has_no_time_left(run: CodeRunner) -> None:
    run._files = SlowFiles(30)
    begun = time.monotonic()
    result = run.run(SLEEP)
    assert time.monotonic() - begun < 12
    assert result.error and "EXEC_SECONDS" in result.error.hint
    assert (result.stdout, result.metrics.exit_code) == ("", None)
    run._files = NoFiles()
    assert run.run("print(2)").result == 2


def test_collecting_has_a_time_of_its_own(run: CodeRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visit, "COLLECT_SECONDS", 0.001)
    result = run.run("open('x', 'w').close(); print(1)", thread="t")
    assert (result.error, result.result, dict(result.files)) == (None, 1, {})
    assert "collecting it took over 0.001 s" in result.note
