"""A key that has ended gives its recorded result, and no file that another program has changed since."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from libs.exec_tool.execution_outcome import ExecResult
from libs.exec_tool.program_runner import CodeRunner
from libs.sandbox.host import CommandRecords


class Files:
    """Saves files in memory."""

    def __init__(self) -> None:
        self.saved: dict[str, bytes] = {}

    async def files(self, thread: str) -> Mapping[str, bytes]:
        return dict(self.saved)

    async def keep(self, thread: str, changed: Mapping[str, bytes], removed: tuple[str, ...]) -> None:
        self.saved |= changed


async def test_replayed_result_has_only_files_as_they_were(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    files = Files()
    records = CommandRecords(tmp_path / "records.sqlite")
    runner = CodeRunner(cast("Any", None), files=files, records=records)

    async def execute(call: Any, *_: object) -> ExecResult:
        result = ExecResult(
            files={"f": call.code.encode(), "g": b"same", "h": b"", "\u00fc": b"1"}, note="n."
        )
        await files.keep("", result.files, ())
        return result

    monkeypatch.setattr(runner, "_execute", execute)
    try:
        first = await runner.arun("one", key="1")
        assert await runner.arun("one", key="1") == first
        await runner.arun("two", key="2")
        files.saved["h"] = b"changed"
        del files.saved["\u00fc"]
        again = await runner.arun("one", key="1")
    finally:
        records.close()
    assert replace(again, note="") == replace(first, files={"g": b"same"}, note="")
    assert again.note == (
        "n. This is the recorded result of a program that ran before. The thread does not have 3 of its "
        "files as they were then, so these are not returned: 'f', 'h', '\\xfc'."
    )
