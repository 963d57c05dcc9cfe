"""The gate without tools: any node can put calls before a person, as the loop over code blocks does."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command
from typing_extensions import TypedDict

from libs.middleware.approvals import Approve, CheckpointerRequired, Request, ask

THREAD: Any = {"configurable": {"thread_id": "1"}}
BLOCKS = ["print(1)", "print(2)"]


class State(TypedDict, total=False):
    approved: list[str]


def graph(checkpointer: Any) -> CompiledStateGraph[Any, Any, Any, Any]:
    """One reply with two code blocks."""

    def review(state: State) -> State:
        requests = [
            Request("execute_code", {"language": "python", "code": code}, f"message/{index}")
            for index, code in enumerate(BLOCKS)
        ]
        decisions = ask(requests, {"execute_code": ("approve", "reject")})
        return {"approved": [c for c, d in zip(BLOCKS, decisions, strict=True) if isinstance(d, Approve)]}

    builder = StateGraph(State)
    builder.add_node("review", review)
    builder.add_edge(START, "review")
    builder.add_edge("review", END)
    return builder.compile(checkpointer=checkpointer)


def test_one_question_for_a_reply_and_one_request_for_each_block() -> None:
    blocks = graph(InMemorySaver())
    [question] = blocks.invoke({}, THREAD)["__interrupt__"]
    assert [request["args"] for request in question.value["action_requests"]] == [
        {"language": "python", "code": "print(1)"},
        {"language": "python", "code": "print(2)"},
    ]
    wrong = blocks.invoke(Command(resume={"decisions": [{"type": "approve"}]}), THREAD)
    assert wrong["__interrupt__"][0].value["error"].startswith("1 decisions for 2 calls")
    answer = {"decisions": [{"type": "reject"}, {"type": "approve"}]}
    assert blocks.invoke(Command(resume=answer), THREAD)["approved"] == ["print(2)"]


def test_decisions_bound_to_their_requests_cannot_be_swapped() -> None:
    blocks = graph(InMemorySaver())
    [question] = blocks.invoke({}, THREAD)["__interrupt__"]
    bound = [{"type": "approve", "digest": r["digest"]} for r in question.value["action_requests"]]
    swapped = blocks.invoke(Command(resume={"decisions": bound[::-1]}), THREAD)
    assert "digest is that of another call" in swapped["__interrupt__"][0].value["error"]
    assert blocks.invoke(Command(resume={"decisions": bound}), THREAD)["approved"] == BLOCKS


def test_nothing_is_asked_that_nobody_can_answer() -> None:
    with pytest.raises(CheckpointerRequired):
        graph(None).invoke({})
