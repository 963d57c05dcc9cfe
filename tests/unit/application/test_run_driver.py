"""`carry_out` settles a run that is cancelled or lasts too long."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import MessagesState, StateGraph

from agent.listing import Listing
from agent.run.agent_run import Run
from agent.run.driver import carry_out
from agent.run.run_events import Event, Message
from libs.middleware.approvals.addressed_graph import answer_by_id
from libs.middleware.budget.run_budget import Budget

at_work: list[str] = []


async def _step(state: MessagesState) -> None:
    """A step that prints, does not end, and takes a moment to stop."""
    at_work.append("step")
    get_stream_writer()({"type": "output", "tool_call_id": "call", "text": "begun"})
    try:
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(0.05)
        at_work.remove("step")


async def _no_files() -> Listing:
    return Listing()


@pytest.fixture
def run() -> Iterator[Run]:
    graph = StateGraph(MessagesState)
    graph.add_node("step", _step)
    graph.set_entry_point("step")
    compiled = answer_by_id(graph.compile(checkpointer=InMemorySaver()))
    yield Run(compiled, "code", "thread", _no_files, budget=Budget(seconds=1))
    at_work.clear()


async def test_cancelled_run_has_ended(run: Run) -> None:
    showing = asyncio.Event()

    async def show(event: Event) -> None:
        showing.set()
        await asyncio.sleep(60)

    running = asyncio.create_task(carry_out(run, run.begin("a task"), show=show, grace=60))
    await showing.wait()
    assert at_work == ["step"]
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert at_work == []


async def test_run_that_lasts_too_long_ends_with_budget_seconds(run: Run) -> None:
    events: list[Event] = []
    result = await carry_out(run, run.begin("a task"), show=events.append, grace=-0.5)
    assert at_work == []
    assert result.status == "budget_seconds"
    assert "RUN_MAX_SECONDS" in result.text
    assert isinstance(events[-1], Message)
    assert events[-1].text == result.text
