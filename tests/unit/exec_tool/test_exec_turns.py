"""What an execution is for others: those that share its files wait, and the command log names its folder."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, cast
from unittest import mock

import pytest

from libs.exec_tool.outcome import ExecResult
from libs.exec_tool.program_execution import Executor
from libs.exec_tool.program_runner import CodeRunner
from libs.sandbox.host.records import log_file
from libs.sandbox.host.records.command_log import CommandRecords
from libs.sandbox.process_owner import owner_label


class NoFiles:
    async def files(self, thread: str) -> Mapping[str, bytes]:
        return {}

    async def keep(self, thread: str, changed: Mapping[str, bytes], removed: tuple[str, ...]) -> None: ...


@pytest.mark.parametrize(
    ("files", "threads", "most"),
    [(NoFiles(), ["", "", ""], 1), (NoFiles(), ["a", "a", "b"], 2), (None, ["", "", ""], 3)],
)
async def test_executions_with_common_files_take_turns(
    monkeypatch: pytest.MonkeyPatch, files: NoFiles | None, threads: list[str], most: int
) -> None:
    runner = CodeRunner(cast("Any", None), files=files)
    running: list[None] = []
    counts = []

    async def execute(*_: object) -> ExecResult:
        running.append(None)
        counts.append(len(running))
        await asyncio.sleep(0.05)
        running.pop()
        return ExecResult()

    monkeypatch.setattr(Executor, "run", execute)
    await asyncio.gather(*(runner.arun("1", thread=thread) for thread in threads))
    assert max(counts) == most


@pytest.mark.parametrize(
    ("given", "folder"),
    [({"workspace_of": lambda thread: f"/there/{thread}"}, "/there/a"), ({}, "")],
)
async def test_program_changes_only_the_folder_that_its_results_go_to(
    tmp_path: Path, given: Any, folder: str
) -> None:
    """Otherwise its time would make changes of other agents in other folders somebody else's."""
    elsewhere = owner_label().replace("}", ', "other": 1}')
    with closing(CommandRecords(tmp_path / "commands.sqlite")) as records:
        runner = CodeRunner(cast("Any", None), records=records, **given)
        result = await runner.arun("1", thread="a", key="k", dependencies=["x"])
        assert result.error and result.error.kind == "dependency"
        with (
            mock.patch.object(log_file, "owner_label", lambda: elsewhere),
            closing(CommandRecords(tmp_path / "commands.sqlite")) as other,
        ):
            assert await other.of_other_programs(0.0, "/here") == []
            found = await other.of_other_programs(0.0, folder)
    assert [thread for thread, _, _ in found] == (["a"] if folder else [])


@pytest.mark.parametrize("starts", [False, True])
async def test_call_that_is_cancelled_before_its_program_starts_may_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, starts: bool
) -> None:
    with closing(CommandRecords(tmp_path / "commands.sqlite")) as records:
        runner = CodeRunner(cast("Any", None), records=records)
        waiting = asyncio.Event()

        async def execute(*given: Any) -> ExecResult:
            if waiting.is_set():
                return ExecResult(stdout="ran")
            if starts:
                given[-1].set()
            waiting.set()
            await asyncio.sleep(60)
            raise AssertionError

        monkeypatch.setattr(Executor, "run", execute)
        first = asyncio.create_task(runner.arun("1", key="k"))
        await waiting.wait()
        first.cancel()
        await asyncio.wait([first])
        again = await runner.arun("1", key="k")
        assert (again.stdout, again.error and again.error.kind) == (
            ("", "interrupted") if starts else ("ran", None)
        )
