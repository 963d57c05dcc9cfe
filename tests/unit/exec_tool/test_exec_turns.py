"""Executions that share files run one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest

from libs.exec_tool.execution_outcome import ExecResult
from libs.exec_tool.program_runner import CodeRunner


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

    monkeypatch.setattr(runner, "_execute", execute)
    await asyncio.gather(*(runner.arun("1", thread=thread) for thread in threads))
    assert max(counts) == most
