"""Carries out one run at a terminal: shows events, asks for approvals, explains errors."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from agent.run import Approval, Decide, LeftPending, Result, Run, carry_out, explained
from agent.terminal.json_view import JsonLines
from agent.terminal.long_silence import telling_silence
from agent.terminal.terminal_view import EventView

__all__ = ["Outcome", "exit_status", "take_turn"]

_EXIT: Mapping[str, int] = {"completed": 0, "interrupted": 3, "max_steps": 4}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended."""

    result: Result
    by_ctrl_c: Literal["stopped", "left"] | None = None
    """`stopped`: during a step. `left`: at an approval, which stays pending."""


def exit_status(status: str) -> int:
    """Return the exit status for the status of a run: 3 approval pending, 4 a budget or limit, 1 an error."""
    return 4 if status.startswith("budget_") else _EXIT.get(status, 1)


async def take_turn(
    run: Run,
    view: EventView | JsonLines,
    task: str | None,
    *,
    approvals: Literal["ask", "effects", "auto", "reject"],
    ask: Decide | None,
) -> Outcome:
    """Carry out a run and return its outcome, which is not shown yet.

    Cancellation stops the running command and is an outcome. An unexpected error is shown and raised.

    Args:
        task: the task; None: resume what is pending in the thread.
        approvals: `auto`: each waiting call is shown and approved. `reject`: it is shown and rejected.
        ask: asks a person; None: waiting calls stay pending.
    """

    async def decide(approval: Approval) -> list[dict[str, Any]]:
        requests = approval.question["action_requests"]
        if approvals == "reject":
            view.show(approval)
            return [{"type": "reject", "digest": request["digest"]} for request in requests]
        if approvals != "auto" and ask:
            if isinstance(view, EventView):
                view.say_absent((await run.result()).absent_paths)
            return await ask(approval)
        if approvals != "auto":
            for waiting in await run.approvals():
                view.show(waiting)
            raise LeftPending(by_ctrl_c=False)
        view.show(approval)
        return [{"type": "approve", "digest": request["digest"]} for request in requests]

    try:
        waits = task is None and await run.approvals()
        events = None if waits else run.go_on() if task is None else run.begin(task)
        async with telling_silence(view if isinstance(view, EventView) else None):
            return Outcome(await carry_out(run, events, show=view.show, decide=decide))
    except LeftPending as left:
        return Outcome(await run.result(), "left" if left.by_ctrl_c else None)
    except asyncio.CancelledError:
        return Outcome(run.ended("stopped", "Stopped by Ctrl-C."), "stopped")
    except BaseException as error:
        if (text := explained(error)) is None:
            view.finish(run.ended("error", f"{type(error).__name__}: {error}"))
            raise
        return Outcome(run.ended("error", text))
