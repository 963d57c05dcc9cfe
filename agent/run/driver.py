"""Drives one run to its end for every entry point: shows events, asks for approvals, settles stopped runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any
from uuid import uuid4

from agent.run.agent_run import Run
from agent.run.run_events import Approval, Event, Message, Result

__all__ = ["GRACE", "Decide", "LeftPending", "Show", "carry_out"]

GRACE = 30.0
"""Seconds that a run may last beyond its budget, which counts only the work of models and tools."""

Show = Callable[[Event], Awaitable[None] | None]
"""Shows an event."""
Decide = Callable[[Approval], Awaitable[list[dict[str, Any]]]]
"""Returns a decision for each request of an approval. Raises `LeftPending` where nobody decided."""


class LeftPending(Exception):
    """The person did not decide, so the calls stay pending. `by_ctrl_c`: the person pressed Ctrl-C."""

    def __init__(self, *, by_ctrl_c: bool) -> None:
        super().__init__()
        self.by_ctrl_c = by_ctrl_c


class _OutOfTime(Exception):
    """The run lasted longer than its budget and `GRACE` allow."""


async def carry_out(
    run: Run,
    events: AsyncGenerator[Event, None] | None,
    *,
    show: Show = lambda _: None,
    decide: Decide | None = None,
    grace: float = GRACE,
) -> Result:
    """Carry out a run until it ends, or until an approval is pending that nobody decides.

    A run that is cancelled or lasts too long is settled: its command has ended, and the thread accepts
    another task.

    Args:
        run: the run.
        events: the first part of the run, such as `run.begin(task)`; None: begin with pending approvals.
        show: is called with each event.
        decide: answers approvals; None: approvals stay pending.
        grace: see `GRACE`.

    Raises:
        LeftPending: raised by `decide`.
    """
    seconds = run.budget.seconds + grace
    try:
        if events is not None:
            await _shown(events, show, seconds)
        while decide and (waiting := await run.approvals()):
            answers = {each.interrupt_id: {"decisions": await decide(each)} for each in waiting}
            await _shown(run.answer(answers), show, seconds)
    except asyncio.CancelledError:
        await run.settle()
        raise
    except _OutOfTime:
        await run.settle()
        text = run.budget.explain("budget_seconds")
        await _tell(show, Message(str(uuid4()), text, [], subagent=False))
        return run.ended("budget_seconds", text)
    return await run.result()


async def _shown(events: AsyncGenerator[Event, None], show: Show, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds) as deadline, aclosing(events):
            async for event in events:
                await _tell(show, event)
    except TimeoutError:
        if not deadline.expired():
            raise
        raise _OutOfTime from None


async def _tell(show: Show, event: Event) -> None:
    if (showing := show(event)) is not None:
        await showing
