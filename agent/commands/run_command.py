"""`code-agent run`: carries out one run in a thread and prints it for a person or a program."""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

from rich.console import Console

from agent.listing import is_plot
from agent.models import shown_name
from agent.run import AgentName, Result, complaint, open_runtime
from agent.secrets import KNOWN
from agent.settings import load_settings
from agent.terminal import (
    STOPPED,
    HumanView,
    JsonLines,
    Person,
    ask_person,
    exit_status,
    run_stoppable,
    take_turn,
    write_result,
)
from agent.threads import held, place
from libs.middleware.unfinished import is_unfinished

__all__ = ["run_command"]


class BadUsage(Exception):
    """The arguments cannot be used; the message says why."""


def run_command(
    task: str | None,
    *,
    agent: AgentName | Literal["auto"],
    approve: Literal["ask", "auto", "reject"] | None,
    model: str | None,
    thread: str | None,
    as_json: bool,
) -> int:
    """Carry out a task, or resume a thread, and return the exit status of the program.

    0 completed, 1 an error, or the model sent no code that can be run, 2 bad usage or settings,
    3 interrupted (approval pending), 4 a budget or limit, 130 stopped by Ctrl-C.
    """
    for stream in (sys.stdin, sys.stdout):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    given: dict[str, Any] = {"model": model, "approvals": None if approve == "reject" else approve}
    overrides = {name: value for name, value in given.items() if value is not None}
    options = ("--model", model) if model else ()
    told: tuple[str, int] | None
    try:
        if task == "-":
            task = sys.stdin.read()
        if thread is not None and not thread.strip():
            raise BadUsage("The thread is empty: give its ID, or leave --thread away for a new thread.")
        if task is not None and not task.strip():
            raise BadUsage("The task is empty: say what is to be done.")
        if task is None and thread is None:
            raise BadUsage('Give a task, as in `code-agent run "Summarise /data/sales.csv"`, or --thread ID.')
        if approve == "reject" and load_settings().approvals == "auto":
            overrides["approvals"] = "ask"  # without questions there would be nothing to reject
        return run_stoppable(
            _run(overrides, agent, task, thread, options=options, as_json=as_json, reject=approve == "reject")
        )
    except (asyncio.CancelledError, KeyboardInterrupt):  # the latter while the task is read
        told = "Stopped by Ctrl-C before the run began.", STOPPED
    except Exception as error:
        told = (str(error), 2) if isinstance(error, BadUsage) else complaint(error)
        if told is None:
            raise
    text, status = KNOWN(told[0]), told[1]
    if as_json:
        write_result(Result(thread, "stopped" if status == STOPPED else "error", text))
    else:
        Console(stderr=True).print(text, style="bold red", markup=False, highlight=False, soft_wrap=True)
    return status


async def _run(
    overrides: dict[str, Any],
    asked: AgentName | Literal["auto"],
    task: str | None,
    thread: str | None,
    *,
    options: Sequence[str],
    as_json: bool,
    reject: bool,
) -> int:
    thread_id = thread or secrets.token_hex(4)
    async with open_runtime(**overrides) as runtime, held(thread_id):
        run = await runtime.run(thread_id, asked, pending=task is None)
        if task is None:
            state = await run.state()
            if not state.values:
                raise BadUsage(f"There is no thread {thread_id!r} in {place(runtime.settings)}.")
            if not is_unfinished(state):
                raise BadUsage(f"Nothing is pending in thread {thread_id!r}: give it a task.")
        await runtime.check(run.agent)
        approvals = "reject" if reject else runtime.settings.approvals
        human = ask = None
        if not as_json:
            console = Console(highlight=False, emoji=False)
            human = HumanView(console, run, shown_name(runtime.model), approvals, options, task=task)
            human.say_new_workspace(runtime.settings.workspace_dir)
            if sys.stdin.isatty() and sys.stdout.isatty() and approvals != "auto":
                from agent.terminal.typed_answers import TypedAnswers

                person = Person(TypedAnswers(), runtime.rules, runtime)
                ask = partial(ask_person, view=human, person=person, thread=thread_id)
        view = human or JsonLines(thread_id)
        outcome = await take_turn(run, view, task, approvals=approvals, ask=ask)
        if human and any(map(is_plot, outcome.result.files)):
            from agent.terminal.terminal_plots import show_plots

            with runtime.within(thread_id) as computer:
                await show_plots(outcome.result.files, computer, human.console)
        if human:
            human.goes_on = await runtime.goes_on(thread_id)
            human.files_travel = await runtime.folder_of(thread_id) is None
        view.finish(outcome.result)
        return STOPPED if outcome.by_ctrl_c else exit_status(outcome.result.status)
