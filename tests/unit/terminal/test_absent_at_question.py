"""Absent paths below /data are named with the question, and all absent paths in the pending run's result."""

from __future__ import annotations

import io
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState, StateGraph
from langgraph.types import interrupt
from rich.console import Console

from agent.listing import Listing
from agent.run import Approval, LeftPending
from agent.run.agent_run import Run
from agent.terminal import EventView, take_turn
from libs.middleware.approvals.addressed_graph import answer_by_id


class _State(MessagesState):
    absent_paths: list[str]


def _begin(state: _State) -> dict[str, Any]:
    return {"absent_paths": ["/data/people.csv", "/results/plot.png"]}


def _ask(state: _State) -> None:
    interrupt({"action_requests": []})


async def _no_files() -> Listing:
    return Listing()


async def test_absent_path_below_data_is_named_before_the_question() -> None:
    graph = StateGraph(_State)
    graph.add_sequence([("begin", _begin), ("ask", _ask)])
    graph.set_entry_point("begin")
    run = Run(answer_by_id(graph.compile(checkpointer=InMemorySaver())), "code", "thread", _no_files)
    file = io.StringIO()
    shown: list[str] = []

    async def ask(approval: Approval) -> list[dict[str, Any]]:
        shown.append(file.getvalue())
        raise LeftPending(by_ctrl_c=False)

    outcome = await take_turn(run, EventView(Console(file=file)), "a task", approvals="ask", ask=ask)
    assert shown == ["/data/people.csv is not there.\n"]
    assert outcome.result.status == "interrupted"
    assert outcome.result.absent_paths == ["/data/people.csv", "/results/plot.png"]
