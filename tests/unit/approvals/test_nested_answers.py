"""A graph with approvals as a node of another graph, which knows nothing of approvals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command

from libs.middleware.approvals.approval_gate import CheckpointerRequired
from tests.support.code_loops import bash, looping, playing
from tests.support.gated_agents import (
    APPROVE,
    REJECT,
    TOOL,
    agent,
    decide,
    questions,
    ran,
    run,
    say,
    scripted,
    task,
    thread,
    waiting,
)


def around(sub: Any, *, called: bool = False, saver: Any = None) -> Any:
    """Return a graph of the user's own that has `sub` as a node, or calls `sub` in a node."""

    def call(state: MessagesState) -> dict[str, Any]:
        return {"messages": sub.invoke({"messages": state["messages"]})["messages"][-1:]}

    builder: Any = StateGraph(MessagesState)
    builder.add_node("a", call if called else sub)
    builder.add_edge(START, "a")
    builder.add_edge("a", END)
    return builder.compile(checkpointer=saver or InMemorySaver())


def test_outer_graph_needs_the_checkpointer(tmp_path: Path) -> None:
    graph = agent(tmp_path, scripted({"go": ["done"]}), checkpointer=InMemorySaver())
    builder: Any = StateGraph(MessagesState)
    builder.add_node("a", graph)
    builder.add_edge(START, "a")
    with pytest.raises(CheckpointerRequired, match="compile the outer graph with the checkpointer"):
        builder.compile().invoke(say("go"))


def answered(result: Any, decision: Any, *, by_id: bool) -> Command[Any]:
    [asked] = result["__interrupt__"]
    answer = {"decisions": [decision] * len(asked.value["action_requests"])}
    return Command(resume={asked.id: answer} if by_id else answer)


@pytest.mark.parametrize("mode", ["batched", "per_call"])
@pytest.mark.parametrize("called", [False, True], ids=["node", "called"])
@pytest.mark.parametrize("by_id", [False, True], ids=["plain", "by-id"])
def test_answers_reach_a_nested_agent(tmp_path: Path, *, by_id: bool, called: bool, mode: Any) -> None:
    script = scripted({"go": [[run("one"), run("two")], [run("three")], [run("four")], "done"]})
    graph = around(agent(tmp_path, script, interrupt_mode=mode), called=called)
    asked = graph.invoke(say("go"), thread())
    asked = graph.invoke(answered(asked, APPROVE, by_id=by_id), thread())
    assert sorted(ran(tmp_path)) == ["one", "two"]
    asked = graph.invoke(answered(asked, REJECT, by_id=by_id), thread())
    result = graph.invoke(answered(asked, APPROVE, by_id=by_id), thread())
    assert sorted(ran(tmp_path)) == ["four", "one", "two"]
    assert result["messages"][-1].text == "done"


@pytest.mark.parametrize("by_id", [False, True], ids=["plain", "by-id"])
async def test_answers_reach_a_nested_agent_in_an_event_loop(tmp_path: Path, *, by_id: bool) -> None:
    script = scripted({"sub": [[run("one")], [run("two")], "ok"], "go": [[task("sub")], "done"]})
    graph = around(agent(tmp_path, script))
    asked = await graph.ainvoke(say("go"), thread())
    asked = await graph.ainvoke(answered(asked, APPROVE, by_id=by_id), thread())
    asked = await graph.ainvoke(None, thread())
    assert ran(tmp_path) == ["one"]
    result = await graph.ainvoke(answered(asked, APPROVE, by_id=by_id), thread())
    assert ran(tmp_path) == ["one", "two"]
    assert result["messages"][-1].text == "done"


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_answer_never_decides_a_later_question_of_a_nested_agent(tmp_path: Path, durability: Any) -> None:
    graph = around(agent(tmp_path, scripted({"go": [[run("one")], [run("two")], "done"]})))
    graph.invoke(say("go"), thread(), durability=durability)
    graph.invoke(decide(APPROVE), thread(), durability=durability)
    for leftover in (None, Command(resume={"f" * 32: {"decisions": [APPROVE]}})):
        assert len(questions(graph.invoke(leftover, thread(), durability=durability))) == 1
        assert ran(tmp_path) == ["one"]
    graph.invoke(decide(APPROVE), thread(), durability=durability)
    assert ran(tmp_path) == ["one", "two"]


def test_wrong_answer_to_a_nested_agent_is_asked_again_with_the_reason(tmp_path: Path) -> None:
    graph = around(agent(tmp_path, scripted({"go": [[run("one")], "done"]})))
    [first] = questions(graph.invoke(say("go"), thread()))
    assert first["scopes"] == ["call"]
    for wrong, reason in (
        ("yes", '"decisions" must be a list'),
        ({"decisions": [TOOL]}, "nothing would keep it"),
    ):
        [again] = questions(graph.invoke(Command(resume=wrong), thread()))
        assert reason in again["error"]
    assert ran(tmp_path) == []
    graph.invoke(decide(APPROVE), thread())
    assert ran(tmp_path) == ["one"]


def test_each_question_of_nested_subagents_is_answered_by_its_id(tmp_path: Path) -> None:
    script = {
        "left": [[run("left")], "ok"],
        "right": [[run("right")], "ok"],
        "go": [[task("left"), task("right")], "done"],
    }
    graph = around(agent(tmp_path, scripted(script)))
    ids = waiting(graph.invoke(say("go"), thread()))
    asked = graph.invoke(Command(resume={ids["right"]: {"decisions": [APPROVE]}}), thread())
    assert waiting(asked) == {"left": ids["left"]}
    result = graph.invoke(answered(asked, APPROVE, by_id=True), thread())
    assert sorted(ran(tmp_path)) == ["left", "right"]
    assert result["messages"][-1].text == "done"


def test_edited_block_of_a_nested_loop_runs(tmp_path: Path) -> None:
    model = playing(bash("echo one"), "done")
    with looping(tmp_path, model, approvals={"execute_code": True}) as loop:
        graph = around(loop)
        graph.invoke(say("go"), thread())
        edited = {"name": "execute_code", "args": {"language": "bash", "code": "echo edited > edited.txt"}}
        result = graph.invoke(decide({"type": "edit", "edited_action": edited}), thread())
    assert "__interrupt__" not in result
    assert (tmp_path / "workspace" / "edited.txt").read_text() == "edited\n"
