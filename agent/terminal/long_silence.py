"""Prints in a pipe or a log that a silent run is still at work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agent.terminal.terminal_view import EventView

__all__ = ["telling_silence"]

_SECONDS = 15.0
"""Longest time in seconds without a printed line."""


@asynccontextmanager
async def telling_silence(view: EventView | None, seconds: float = _SECONDS) -> AsyncIterator[None]:
    """Return a context that prints a line whenever `view` has printed nothing for some seconds.

    Does nothing at a terminal, and without a view.
    """
    if view is None or view.console.is_terminal:
        yield
        return
    task = asyncio.create_task(_tell(view, seconds))
    try:
        yield
    finally:
        task.cancel()


async def _tell(view: EventView, seconds: float) -> None:
    begun = time.monotonic()
    while True:
        await asyncio.sleep(max(view.printed_at + seconds - time.monotonic(), seconds / 10))
        # Not in the middle of a reply or of a line of output.
        if view.at_line_start and view.printed_at + seconds <= time.monotonic():
            view.say(f"Still at work, {time.monotonic() - begun:.0f} s after the start.", "dim")
