"""Commands and captures of a thread take turns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from libs.sandbox.host.thread_work import Turns

SOON = 0.05
"""Seconds in which something would happen if it could."""


class Steps:
    """Records what begins and ends, and lets the test end each."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.log: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}

    def end(self, name: str) -> None:
        self._ends.setdefault(name, asyncio.Event()).set()

    async def work(self, name: str) -> None:
        self.log.append(f"{name} begins")
        await self._ends.setdefault(name, asyncio.Event()).wait()
        self.log.append(f"{name} ends")

    def capture(self, name: str) -> Callable[[], Awaitable[None]]:
        return lambda: self.work(name)

    def command(self, name: str, thread: str = "t") -> asyncio.Task[None]:
        async def run() -> None:
            async with self.turns.command(thread):
                await self.work(name)

        return asyncio.ensure_future(run())


@pytest.fixture
async def steps() -> Steps:
    turns = Turns()
    turns.watched = True
    return Steps(turns)


async def soon() -> None:
    await asyncio.sleep(SOON)


async def test_file_that_a_command_changes_is_no_older_than_the_command(steps: Steps, tmp_path: Path) -> None:
    """The clock of the files is late. By another clock, some changes would be made before the command."""
    for number in range(200):
        async with steps.turns.command("t"):
            (tmp_path / str(number)).touch()
        assert steps.turns.spans[-1].began <= (tmp_path / str(number)).stat().st_ctime_ns


async def test_command_waits_for_a_running_capture(steps: Steps) -> None:
    steps.turns.capture("t", steps.capture("capture"))
    await soon()
    command = steps.command("command")
    await soon()
    assert steps.log == ["capture begins"]
    steps.end("capture")
    steps.end("command")
    await command
    assert steps.log == ["capture begins", "capture ends", "command begins", "command ends"]


async def test_capture_waits_for_all_parallel_commands_of_its_thread(steps: Steps) -> None:
    commands = [steps.command("a"), steps.command("b")]
    await soon()
    assert steps.log == ["a begins", "b begins"]
    capture = steps.turns.capture("t", steps.capture("capture"))
    steps.end("a")
    await soon()
    assert "capture begins" not in steps.log
    steps.end("b")
    steps.end("capture")
    await asyncio.gather(*commands, capture)
    assert steps.log[-2:] == ["capture begins", "capture ends"]


async def test_threads_do_not_wait_for_each_other(steps: Steps) -> None:
    command = steps.command("other", "u")
    await soon()
    steps.turns.capture("t", steps.capture("capture"))
    await soon()
    another = steps.command("another", "u")
    await soon()
    assert steps.log == ["other begins", "capture begins", "another begins"]
    for name in ("other", "another", "capture"):
        steps.end(name)
    await asyncio.gather(command, another, steps.turns.settled("t"))


async def test_command_does_not_wait_for_a_capture_that_waits_for_a_command(steps: Steps) -> None:
    """Otherwise parallel subagents would wait for each other's longest command."""
    long = steps.command("long")
    await soon()
    capture = steps.turns.capture("t", steps.capture("capture"))
    short = steps.command("short")
    steps.end("short")
    await short
    steps.end("long")
    steps.end("capture")
    await asyncio.gather(long, capture)


async def test_captures_that_wait_become_one(steps: Steps) -> None:
    first = steps.turns.capture("t", steps.capture("first"))
    await soon()
    second = steps.turns.capture("t", steps.capture("second"))
    assert steps.turns.capture("t", steps.capture("third")) is second
    steps.end("first")
    steps.end("second")
    await asyncio.gather(first, second)
    assert steps.log == ["first begins", "first ends", "second begins", "second ends"]


async def test_parallel_first_commands_all_wait_for_the_capture_that_is_due(steps: Steps) -> None:
    steps.turns.before_next("t", steps.capture("capture"))
    assert steps.turns.is_due("t")
    commands = [steps.command("a"), steps.command("b")]
    await soon()
    assert steps.log == ["capture begins"]
    assert not steps.turns.is_due("t")
    for name in ("capture", "a", "b"):
        steps.end(name)
    await asyncio.gather(*commands)
    assert steps.log.count("capture begins") == 1


async def test_cancelled_first_command_does_not_cancel_the_capture(steps: Steps) -> None:
    steps.turns.before_next("t", steps.capture("capture"))
    cancelled = steps.command("cancelled")
    await soon()
    cancelled.cancel()
    await asyncio.wait({cancelled})
    command = steps.command("command")
    await soon()
    assert steps.log == ["capture begins"]
    steps.end("capture")
    steps.end("command")
    await command
    assert steps.log[1:] == ["capture ends", "command begins", "command ends"]


async def test_cancelled_command_lets_a_capture_begin(steps: Steps) -> None:
    command = steps.command("command")
    await soon()
    capture = steps.turns.capture("t", steps.capture("capture"))
    command.cancel()
    steps.end("capture")
    await asyncio.wait_for(capture, 10)


@pytest.mark.parametrize("due", [False, True])
async def test_failed_capture_blocks_no_command(steps: Steps, due: bool) -> None:
    async def fail() -> None:
        raise ValueError("a mistake")

    if due:
        steps.turns.before_next("t", fail)
    else:
        capture = steps.turns.capture("t", fail)
    steps.end("command")
    await asyncio.wait_for(steps.command("command"), 10)
    await asyncio.wait_for(steps.turns.settled("t"), 10)
    if not due:
        assert isinstance(capture.exception(), ValueError)


async def test_capture_cancelled_before_its_begin_blocks_no_command(steps: Steps) -> None:
    steps.turns.capture("t", steps.capture("capture")).cancel()
    steps.end("command")
    await asyncio.wait_for(steps.command("command"), 10)
    assert steps.log == ["command begins", "command ends"]


async def test_command_begins_after_the_capture_and_then_the_look(steps: Steps) -> None:
    steps.turns.look = lambda thread: steps.work(f"look of {thread}")
    steps.turns.before_next("t", steps.capture("capture"))
    for name in ("capture", "look of t", "command"):
        steps.end(name)
    await steps.command("command")
    begun = [line for line in steps.log if line.endswith("begins")]
    assert begun == ["capture begins", "look of t begins", "command begins"]


async def test_command_waits_for_a_capture_that_began_during_its_look(steps: Steps) -> None:
    steps.turns.look = lambda thread: steps.work(f"look of {thread}")
    command = steps.command("command")
    await soon()
    steps.turns.capture("t", steps.capture("capture"))
    steps.end("look of t")
    steps.end("command")
    await soon()
    assert "command begins" not in steps.log
    steps.end("capture")
    await command


async def test_closing_does_not_wait_for_commands(steps: Steps) -> None:
    command = steps.command("command")
    await soon()
    capture = steps.turns.capture("t", steps.capture("capture"))
    await asyncio.wait_for(steps.turns.all_settled(), 10)
    steps.end("command")
    steps.end("capture")
    await asyncio.gather(command, capture)


async def test_span_is_kept_until_a_capture_after_the_end_of_its_command(steps: Steps) -> None:
    command = steps.command("command")
    await soon()
    (span,) = steps.turns.spans
    steps.turns.forget_spans([span], began=span.began + 1)
    assert list(steps.turns.spans) == [span]
    steps.end("command")
    await command
    assert span.ended is not None
    steps.turns.forget_spans([span], began=span.ended)
    assert list(steps.turns.spans) == [span]
    steps.turns.forget_spans([], began=span.ended + 1)
    assert list(steps.turns.spans) == [span], "only commands that the capture has seen are forgotten"
    steps.turns.forget_spans([span], began=span.ended + 1)
    assert not steps.turns.spans
