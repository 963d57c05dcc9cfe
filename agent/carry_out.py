"""A run before a person or a program: shown as it goes, asked about where it waits, to its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from agent.ask import LeftPending
from agent.events import Approval, Event, Result
from agent.explained import explained
from agent.run import Run

__all__ = ["Decide", "Outcome", "View", "approve_all", "carry_out"]

Decide = Callable[[Approval], Awaitable[list[dict[str, Any]]]]
"""Decisions for all calls of a question. Raises `LeftPending` where nobody decided."""


class View(Protocol):
    """Where a run is shown."""

    def show(self, event: Event) -> None: ...

    def finish(self, result: Result) -> None: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended."""

    result: Result
    by_ctrl_c: Literal["stopped", "left"] | None = None
    """`stopped`: in the middle of a step. `left`: at a question, which stays."""


async def carry_out(run: Run, view: View, task: str | None, decide: Decide) -> Outcome:
    """Run until the end and return how it ended, without showing that yet.

    Cancelling stops the command that runs, and is an outcome. An error that nobody has foreseen is raised,
    after the view was told.

    Args:
        run: the run.
        view: is shown each step.
        task: what is to be done; None: what is pending in the thread.
        decide: answers what waits.
    """
    try:
        return await _until_end(run, view, task, decide)
    except asyncio.CancelledError:
        await run.settle()
        return Outcome(run.ended("error", "Stopped by Ctrl-C."), "stopped")
    except BaseException as error:
        if (text := explained(error)) is None:
            view.finish(run.ended("error", f"{type(error).__name__}: {error}"))
            raise
        return Outcome(run.ended("error", text))


async def approve_all(approval: Approval, view: View) -> list[dict[str, Any]]:
    """Decide without a person: each call is shown and approved."""
    view.show(approval)
    return [
        {"type": "approve", "digest": request["digest"]} for request in approval.question["action_requests"]
    ]


async def _until_end(run: Run, view: View, task: str | None, decide: Decide) -> Outcome:
    waiting = [] if task is not None else await run.approvals()
    if not waiting:
        await _show(view, run.begin(task) if task is not None else run.go_on())
        waiting = await run.approvals()
    while waiting:
        decisions: dict[str, list[dict[str, Any]]] = {}
        try:
            for approval in waiting:
                decisions[approval.interrupt_id] = await decide(approval)
        except LeftPending as left:
            return Outcome(await run.result(), "left" if left.by_ctrl_c else None)
        await _show(view, run.answer(decisions))
        waiting = await run.approvals()
    return Outcome(await run.result())


async def _show(view: View, events: AsyncIterator[Event]) -> None:
    async for event in events:
        view.show(event)
