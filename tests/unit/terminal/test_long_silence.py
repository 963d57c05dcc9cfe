"""A silent run in a pipe prints that it is still at work."""

from __future__ import annotations

import asyncio
import io

from rich.console import Console

from agent.run import TextDelta
from agent.terminal.long_silence import telling_silence
from agent.terminal.terminal_view import EventView
from tests.support.waiting import eventually


def view(*, terminal: bool = False) -> tuple[EventView, io.StringIO]:
    file = io.StringIO()
    return EventView(Console(file=file, force_terminal=terminal, width=80)), file


async def test_silent_run_in_a_pipe_prints_lines() -> None:
    shown, file = view()
    async with telling_silence(shown, 0.05):
        await asyncio.to_thread(eventually, lambda: file.getvalue().count("Still at work, ") > 1)
        shown.show(TextDelta("1", "A repl", subagent=False))
        told = file.getvalue()
        await asyncio.sleep(0.3)
        assert file.getvalue() == told  # no line interrupts a reply
    shown.show(TextDelta("1", "y.\n", subagent=False))
    await asyncio.sleep(0.3)
    assert file.getvalue() == f"{told}y.\n"


async def test_silent_run_at_a_terminal_prints_nothing() -> None:
    shown, file = view(terminal=True)
    async with telling_silence(shown, 0.05):
        await asyncio.sleep(0.3)
    assert file.getvalue() == ""
