"""The output of a program is returned whatever happens while its files are collected."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest

from libs.exec_tool import program_visit
from libs.exec_tool.execute_code_call import Call
from libs.exec_tool.outcome import ExecResult, Metrics
from libs.exec_tool.program_visit import Visit
from libs.persistence import FileContent, mode_of
from libs.sandbox import RunResult, SandboxBusy, SandboxDied

DONE = RunResult("[1]\n", "", 0, truncated=False, timed_out=False, spill_path=None, seconds=1.0)


class Sandbox:
    """Runs the program. Every later command fails."""

    has_network = False
    unreached = ()
    redact = None

    def __init__(self, then: Exception | None) -> None:
        self._then = then
        self._ran = False

    async def arun(self, *_: Any, **__: Any) -> RunResult:
        if self._ran:
            if self._then:
                raise self._then
            await asyncio.sleep(60)
        self._ran = True
        return DONE


async def visited() -> ExecResult:
    sandbox = cast("Any", Sandbox(SandboxDied("It ended.", hint="")))
    return await Visit(sandbox, Call(code="1"), {}, None).run(9, None, Metrics())


@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize(
    ("then", "why"),
    [
        (SandboxDied("The sandbox ended.", hint=""), "collected: The sandbox ended."),
        (SandboxBusy("Busy.", hint=""), "collected: it left no room for another process."),
        (None, "collected: that took over 0.1 s."),
    ],
)
async def test_output_is_returned_without_the_files(
    monkeypatch: pytest.MonkeyPatch, then: Exception | None, why: str, keeps: bool
) -> None:
    monkeypatch.setattr(program_visit, "COLLECT_SECONDS", 0.1)
    sandbox = cast("Any", Sandbox(then))
    visit = Visit(sandbox, Call(code="print([1])"), {"old": b"1"}, None, keeps_files=keeps)
    result = await visit.run(9, None, Metrics())
    assert (result.error, result.result, dict(result.files), result.removed) == (None, [1], {}, ())
    kept = " The thread keeps its files as they were before the program." if keeps else ""
    assert result.note == f"The program's files could not be {why}{kept}"


@pytest.mark.parametrize(
    ("before", "value", "note"),
    [("", None, "The output holds no JSON value. "), ('{"step": 1}\n', {"step": 1}, "")],
)
async def test_json_that_the_removal_of_secrets_has_broken_is_explained(
    before: str, value: object, note: str
) -> None:
    class Redacted(Sandbox):
        async def arun(self, *_: Any, **__: Any) -> RunResult:
            output = f'{before}{{"account": [REDACTED], "balance": 12}}\n'
            return replace(await super().arun(), output=output)

    sandbox = cast("Any", Redacted(SandboxDied("It ended.", hint="")))
    result = await Visit(sandbox, Call(code="1"), {}, None).run(9, None, Metrics())
    assert result.result == value
    assert result.note.startswith(
        f"{note}Known secrets in the output were replaced by [REDACTED]. A JSON value"
    )


@pytest.mark.parametrize(
    ("counts", "left"), [((2, 0), "2 processes"), ((None, 0), "processes"), ((0, 0), "processes")]
)
async def test_processes_that_are_ended_in_several_attempts_are_told(
    monkeypatch: pytest.MonkeyPatch, counts: tuple[int | None, int], left: str
) -> None:
    """Without a count, or with the count 0, the processes have left no room for the next step."""
    ends = list(counts)

    class Full(Sandbox):
        async def arun(self, *_: Any, **__: Any) -> RunResult:
            if not self._ran:
                return await super().arun()
            if (count := ends.pop(0)) is None:
                raise SandboxBusy("Busy.", hint="")
            return replace(DONE, output=f"left {count}\n")

    async def collected(*_: Any) -> Any:
        if ends:
            raise SandboxBusy("Busy.", hint="")
        return program_visit._NOTHING

    monkeypatch.setattr(program_visit, "collected", collected)
    result = await Visit(cast("Any", Full(None)), Call(code="1"), {}, None).run(9, None, Metrics())
    assert result.note.startswith(f"The program left {left} running: what was not finished was ended.")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ('"answer": "There is no column x."', "There is no column x."),
        ('"answer": "No.", "error": "no such city"', "no such city"),
        ('"answer": ""', "no reason was given"),
    ],
)
async def test_program_that_says_it_failed_is_told_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, said: str, reason: str
) -> None:
    monkeypatch.setitem(globals(), "DONE", replace(DONE, output=f'{{"ok": false, {said}}}\n'))
    result = await visited()
    assert result.error and result.error.message == f"The program says that it failed: {reason}"
    monkeypatch.setitem(globals(), "DONE", replace(DONE, exit_code=1))
    result = await visited()
    code = "The program ended with exit code 1."
    assert result.error and result.error.message == f"{code} The program says that it failed: {reason}"


def test_recorded_result_has_the_modes_of_its_files() -> None:
    told = ExecResult(files={"a": b"1", "b": FileContent(b"2", 0o755)}).as_json(contents=True)
    assert [each.get("mode") for each in told["files"]] == [None, "755"]
    assert [mode_of(content) for content in ExecResult.restored(told).files.values()] == [0o644, 0o755]


def test_note_about_files_that_were_not_returned_has_each_reason() -> None:
    links = [(f"link{number}", "a link, FIFO or device") for number in range(12)]
    alike = [("[REDACTED]", "another file has the same name without secrets")] * 2
    note = program_visit._left_out((*links, *alike, ("new", "an empty folder")), ("old",))
    assert note.startswith(
        "15 of the program's files were not returned: link0 (a link, FIFO or device), "
        "[REDACTED] (another file has the same name without secrets), new (an empty folder), "
        "link1 (a link, FIFO or device), "
    )
    assert note.endswith(", and 5 more. Earlier content of 1 of the thread's files stays: 'old'.")
