"""`code-agent run`: puts settings, model, computer, thread and view together, and carries out one run."""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal, cast

from langchain_core.language_models import BaseChatModel
from rich.console import Console

from agent.agents import AgentName, AgentRefused, agent_of, build_agent, choose_agent, steps_of
from agent.ask import LeftPending, PlainAnswers, ask_person
from agent.carry_out import View, approve_all, carry_out
from agent.config import Settings, SettingsError, build_backend, build_model, load_settings
from agent.events import Approval, Result
from agent.json_lines import JsonLines, write_result
from agent.known_secrets import secret_filter
from agent.produced import is_plot
from agent.run import Run
from agent.show import HumanView
from agent.sinks import KNOWN, guard_traces
from agent.stop import STOPPED, run_stoppable
from agent.threads import LOCKS, open_threads, place
from libs.models.deferred import DeferredChatModel, ModelUnavailable
from libs.models.scripted import ScriptedChatModel, ScriptError
from libs.persistence.errors import CheckpointerUnavailable
from libs.persistence.thread_lock import ThreadInUse, thread_lock

if TYPE_CHECKING:
    from agent.exec_parts import ExecParts
    from libs.backends.docker import DockerExecutionBackend

__all__ = ["run_command"]

_EXIT = {"completed": 0, "error": 1, "no_execution": 1, "interrupted": 3, "max_steps": 4}
_BAD_USAGE = 2


class BadUsage(Exception):
    """What was asked for cannot be done; the message says why."""


def run_command(
    task: str | None,
    *,
    agent: Literal["deep", "code", "exec", "auto"],
    approve: Literal["ask", "auto"] | None,
    model: str | None,
    thread: str | None,
    as_json: bool,
) -> int:
    """Carry out a task, or go on with a thread, and return the exit status of the program.

    0 completed, 1 error or no code was run that the task needs, 2 bad usage or settings, 3 interrupted
    (approval pending), 4 a budget or limit, 130 stopped by Ctrl-C.
    """
    for stream in (sys.stdin, sys.stdout):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    given: dict[str, Any] = {"model": model, "approvals": approve}
    try:
        if task is not None and not task.strip():
            raise BadUsage("The task is empty: say what is to be done.")
        if task is None and thread is None:
            raise BadUsage('Give a task, as in `code-agent run "Summarise /data/sales.csv"`, or --thread ID.')
        settings = load_settings(**{name: value for name, value in given.items() if value is not None})
        chat_model = build_model(settings)
        options = ("--model", model) if model else ()
        running = _run(settings, chat_model, agent, task, thread, options=options, as_json=as_json)
        return run_stoppable(running)
    except (BadUsage, AgentRefused, SettingsError, ScriptError, ModelUnavailable) as error:
        return _fail(str(error), thread, _BAD_USAGE, as_json=as_json)
    except CheckpointerUnavailable as error:
        return _fail(f"{error} {error.hint}", thread, _EXIT["error"], as_json=as_json)


def _fail(text: str, thread: str | None, status: int, *, as_json: bool) -> int:
    """Say why no run came about."""
    text = KNOWN(text)
    if as_json:
        write_result(Result(thread, "error", text))
    else:
        Console(stderr=True).print(text, style="bold red", markup=False, highlight=False, soft_wrap=True)
    return status


async def _run(
    settings: Settings,
    model: BaseChatModel,
    asked: Literal["deep", "code", "exec", "auto"],
    task: str | None,
    thread: str | None,
    *,
    options: Sequence[str],
    as_json: bool,
) -> int:
    thread_id = thread or secrets.token_hex(4)
    backend = build_backend(settings)
    sandbox = cast("DockerExecutionBackend", backend.default)
    parts = None
    async with open_threads(settings) as checkpointer:
        held = await asyncio.to_thread(_hold, thread_id)
        try:
            agent = await asyncio.to_thread(
                choose_agent,
                asked,
                thread_id=thread_id,
                thread_agent=await agent_of(checkpointer, thread_id),
                model=model,
                spec=_label(model),
            )
            if agent == "exec":
                parts = await asyncio.to_thread(_parts, settings)
            if isinstance(model, DeferredChatModel):
                await asyncio.to_thread(model.build)  # what is missing is said before a thread begins

            known = secret_filter(settings)
            redact: Callable[[str], str] = known or str
            if known:
                guard_traces(known)

            def run_with(approvals: str) -> Run:
                chosen = settings.model_copy(update={"approvals": approvals})
                graph = build_agent(
                    agent, model, checkpointer=checkpointer, settings=chosen, backend=backend, parts=parts
                )
                return Run(graph, steps_of(agent), thread_id, settings.workspace_of(thread_id), redact)

            # Only a graph with the gate in it knows of the questions that wait at the gate.
            run = run_with("ask")
            state = await run.state()
            if task is None:
                _check_pending(settings, thread_id, exists=bool(state.values), pending=bool(state.next))
            if settings.approvals == "auto" and (task is not None or not state.interrupts):
                run = run_with("auto")
            view: View = JsonLines(thread_id)
            if not as_json:
                view = _human_view(settings, agent, model, thread_id, options)
            return await _carry_out(run, view, task, settings.approvals, sandbox)
        finally:
            await asyncio.to_thread(sandbox.close)
            if parts:
                await asyncio.to_thread(parts.close)
            held.close()


def _parts(settings: Settings) -> ExecParts:
    from agent.exec_parts import build_parts

    return build_parts(settings)


def _hold(thread_id: str) -> ExitStack:
    """Keep every other program out of the thread, until this is closed."""
    held = ExitStack()
    try:
        held.enter_context(thread_lock(LOCKS, thread_id))
    except ThreadInUse as error:
        raise BadUsage(str(error)) from error
    return held


def _check_pending(settings: Settings, thread_id: str, *, exists: bool, pending: bool) -> None:
    if not exists:
        raise BadUsage(f"There is no thread {thread_id!r} in {place(settings)}.")
    if not pending:
        raise BadUsage(f"Nothing is pending in thread {thread_id!r}: give it a task.")


def _human_view(
    settings: Settings, agent: AgentName, model: BaseChatModel, thread_id: str, options: Sequence[str]
) -> HumanView:
    scripted = isinstance(model, ScriptedChatModel)
    return HumanView(
        Console(highlight=False, emoji=False),
        thread_id=thread_id,
        agent=agent,
        model=_label(model),
        scripted=scripted,
        approvals=settings.approvals,
        options=options,
    )


def _label(model: BaseChatModel) -> str:
    return str(getattr(model, "label", None) or f"scripted:{getattr(model, 'source', '')}")


async def _carry_out(
    run: Run, view: View, task: str | None, approvals: str, sandbox: DockerExecutionBackend
) -> int:
    """Run until the end, asking where there is somebody to ask."""

    async def decide(approval: Approval) -> list[dict[str, Any]]:
        if approvals == "auto":
            return await approve_all(approval, view)
        if not isinstance(view, HumanView) or not (sys.stdin.isatty() and sys.stdout.isatty()):
            view.show(approval)
            raise LeftPending(by_ctrl_c=False)
        return await ask_person(
            approval.question, lambda index: view.show_request(approval.question, index), PlainAnswers()
        )

    outcome = await carry_out(run, view, task, decide)
    if isinstance(view, HumanView) and any(map(is_plot, outcome.result.files)):
        from agent.plots import show_plots  # loaded where there is something to show

        await show_plots(outcome.result.files, sandbox, view.console)
    view.finish(outcome.result)
    return STOPPED if outcome.by_ctrl_c else _exit_status(outcome.result.status)


def _exit_status(status: str) -> int:
    return 4 if status.startswith("budget_") else _EXIT.get(status, 1)
