"""Run one task with the code-block agent, in its own workspace and sandbox."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from agent.code_graph import build_graph
from agent.config import Settings, build_backend
from libs.backends.docker import DockerExecutionBackend
from libs.models.deferred_model import ModelUnavailable
from libs.sandbox import SandboxError
from tests.eval.machine import in_sandbox
from tests.eval.reference import write_files
from tests.eval.task import Outcome, Task, Unsolved

__all__ = ["Score", "run_task"]

GRACE = 30.0
"""Seconds after the run's own limit until the run is cancelled, because a model may not end its call."""


@dataclass(frozen=True)
class Score:
    """The result of one task."""

    task: str
    solved: bool
    why: str
    """Reason if the task is not solved."""
    status: str
    steps: int
    """Replies of the model."""
    blocks: int
    """Number of executed code blocks."""
    tokens: int
    """Tokens sent and received, estimated if the model does not report them."""
    seconds: float
    """Wall time of the run, without set-up and check."""
    answer: str


async def run_task(
    task: Task, model: BaseChatModel, settings: Settings, *, seconds: float, transcripts: Path
) -> Score:
    """Run a task, check its result, and write the conversation to `transcripts`/<task>.md.

    Raises:
        SandboxError: No sandbox can be started.
        ModelUnavailable: The model must be configured first.
    """
    with tempfile.TemporaryDirectory(prefix="eval-") as folder:
        workspace = Path(folder, "workspace")
        write_files(task, workspace / "data")
        settings = settings.model_copy(
            update={"workspace_dir": workspace, "approvals": "auto", "run_max_seconds": seconds}
        )
        backend = build_backend(settings)
        computer = backend.default
        assert isinstance(computer, DockerExecutionBackend)
        await computer.sandbox.arun("true")  # a missing sandbox is not a failure of the model
        try:
            graph = build_graph(model, settings=settings, backend=backend, checkpointer=InMemorySaver())
            thread: RunnableConfig = {"configurable": {"thread_id": task.name}}
            begun = time.monotonic()
            failed = ""
            try:
                async with asyncio.timeout(seconds + GRACE):
                    await graph.ainvoke({"messages": [HumanMessage(task.text)]}, thread)
            except (ModelUnavailable, SandboxError):
                raise
            except Exception as error:  # noqa: BLE001 - after any error of a provider, the other tasks go on
                failed = f"{type(error).__name__}: {error}"[:500]
            taken = time.monotonic() - begun
            state = (await graph.aget_state(thread)).values
            messages: list[AnyMessage] = state.get("messages", [])
            status = failed or state.get("status") or "broken_off"
            answer = messages[-1].text if messages and isinstance(messages[-1], AIMessage) else ""
            why = await asyncio.to_thread(_wrong, task, status, Outcome(answer, in_sandbox(computer.sandbox)))
        finally:
            await computer.sandbox.aclose()
    score = Score(
        task=task.name,
        solved=not why,
        why=why,
        status=status,
        steps=state.get("steps", 0),
        blocks=len(state.get("executions") or []),
        tokens=(state.get("run_budget") or {}).get("tokens", 0),
        seconds=round(taken, 1),
        answer=answer,
    )
    await asyncio.to_thread(_keep, transcripts / f"{task.name}.md", score, state, messages)
    return score


def _wrong(task: Task, status: str, outcome: Outcome) -> str:
    """Return what is wrong with an outcome, or ""."""
    if status != "completed":
        return f"the run ended with {status}"
    try:
        task.check(outcome)
    except Unsolved as reason:
        return str(reason)
    return ""


def _keep(path: Path, score: Score, state: dict[str, Any], messages: list[AnyMessage]) -> None:
    """Write the whole conversation, with its opening, for people to read."""
    verdict = "solved" if score.solved else f"not solved: {score.why}"
    figures = {"status": score.status, "steps": score.steps, "tokens": score.tokens, "seconds": score.seconds}
    parts = [f"# {score.task}: {verdict}", json.dumps(figures)]
    for message in [*state.get("opening", []), *messages]:
        parts += [f"## {message.type}", message.text]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(parts) + "\n")
