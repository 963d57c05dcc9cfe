"""Approvals in subagents: bound like the agent that starts them, each answer to its own question."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deepagents import create_deep_agent
from deepagents.backends import LocalShellBackend
from gated_agents import (
    APPROVE,
    GATED,
    REJECT,
    agent,
    assert_answered_once,
    decide,
    questions,
    ran,
    run,
    say,
    scripted,
    task,
    thread,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command

from libs.middleware.approval_middleware import ApprovalMiddleware
from libs.middleware.subagents import bound_subagents


async def test_parallel_subagents_across_restarts(tmp_path: Path) -> None:
    """Every step in a new graph on the same database, as after a restart."""
    model = scripted(
        {
            "left": [[run("left1")], [run("left2")], "ok"],
            "right": [[run("right1")], "ok"],
            "go": [[task("left"), task("right"), run("main")], "done"],
        }
    )

    async def step(given: Any) -> dict[str, Any]:
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as saver:
            result: dict[str, Any] = await agent(tmp_path, model, checkpointer=saver).ainvoke(given, thread())
            return result

    def waiting(result: dict[str, Any]) -> dict[str, str]:
        pending = result["__interrupt__"]
        return {i.value["action_requests"][0]["args"]["command"].split()[1]: i.id for i in pending}

    assert waiting(await step(say("go"))).keys() == {"main"}
    ids = waiting(await step(decide(APPROVE)))
    assert ids.keys() == {"left1", "right1"}
    assert ran(tmp_path) == ["main"]
    with pytest.raises(RuntimeError, match="specify the interrupt id"):
        await step(decide(APPROVE))
    ids = waiting(await step(Command(resume={ids["left1"]: {"decisions": [APPROVE, APPROVE]}})))
    assert ids.keys() == {"left1", "right1"}
    ids = waiting(await step(Command(resume={ids["left1"]: {"decisions": [APPROVE]}})))
    assert ids.keys() == {"left2", "right1"}
    assert ran(tmp_path) == ["main", "left1"]
    ids = waiting(await step(None))
    assert ids.keys() == {"left2", "right1"}
    assert waiting(await step(Command(resume={ids["right1"]: {"decisions": [REJECT]}}))).keys() == {"left2"}
    result = await step(decide(APPROVE))
    assert ran(tmp_path) == ["main", "left1", "left2"]
    assert result["messages"][-1].text == "done"
    assert_answered_once(result["messages"])


@pytest.mark.parametrize("addressed", [True, False])
def test_an_answer_never_decides_a_later_question(tmp_path: Path, addressed: bool) -> None:
    """The outermost checkpoint keeps a bare answer while a subagent goes on to its next question."""
    model = scripted({"sub": [[run("one")], [run("two")], "ok"], "go": [[task("sub")], "done"]})
    graph: Any = agent(tmp_path, model, checkpointer=InMemorySaver())
    if not addressed:
        binding = [ApprovalMiddleware(GATED)]
        graph = create_deep_agent(
            model,
            backend=LocalShellBackend(root_dir=tmp_path, virtual_mode=False),
            middleware=binding,
            subagents=bound_subagents(binding),
            checkpointer=InMemorySaver(),
        )
    pending = graph.invoke(say("go"), thread())["__interrupt__"]
    answer = {"decisions": [APPROVE]}
    graph.invoke(Command(resume=answer if addressed else {pending[0].id: answer}), thread())
    for leftover in (Command(resume={"f" * 32: answer}), None, Command(resume={})):
        assert len(questions(graph.invoke(leftover, thread()))) == 1
        assert ran(tmp_path) == ["one"]
    if not addressed:
        assert len(questions(graph.invoke(Command(resume=answer), thread()))) == 1
        assert ran(tmp_path) == ["one"], "without an address an answer is not taken inside a subagent"


@pytest.mark.parametrize("nested", [True, False])
def test_a_killed_run_that_is_repeated_does_not_answer_its_own_question(tmp_path: Path, nested: bool) -> None:
    """A server starts a killed run again with the input it had: here, the approval of the first command."""
    turns = [[run("one")], [run("two")], "ok"]
    model = scripted({"sub": turns, "go": [[task("sub")], "done"] if nested else turns})
    graph = agent(tmp_path, model, checkpointer=InMemorySaver())

    def served(given: Any, run_id: str) -> dict[str, Any]:
        result: dict[str, Any] = graph.invoke(given, {"configurable": {"thread_id": "1", "run_id": run_id}})
        return result

    served(say("go"), "run-1")
    for _ in range(2):
        assert len(questions(served(decide(APPROVE), "run-2"))) == 1
        assert ran(tmp_path) == ["one"]
    served(decide(APPROVE), "run-3")
    assert ran(tmp_path) == ["one", "two"]


def test_an_answer_to_nothing_is_let_go(tmp_path: Path) -> None:
    graph = agent(tmp_path, scripted({"go": ["hello", [run("one")], "done"]}), checkpointer=InMemorySaver())
    graph.invoke(say("go"), thread())
    graph.invoke(decide(APPROVE), thread())
    assert len(questions(graph.invoke(say("go on"), thread()))) == 1
    assert ran(tmp_path) == []


@pytest.mark.parametrize("kind", ["general-purpose", "helper"])
def test_no_subagent_runs_a_gated_tool_unasked(tmp_path: Path, kind: str) -> None:
    helper = {"name": "helper", "description": "helps", "system_prompt": "Help."}
    model = scripted({"sub": [[run("one")], "ok"], "go": [[task("sub", kind)], "done"]})
    graph = agent(tmp_path, model, checkpointer=InMemorySaver(), subagents=[helper])
    assert len(questions(graph.invoke(say("go"), thread()))) == 1
    assert ran(tmp_path) == []
    graph.invoke(decide(APPROVE), thread())
    assert ran(tmp_path) == ["one"]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"name": "x", "description": "", "runnable": None}, "not declarative"),
        ({"name": "x", "description": "", "graph_id": "y"}, "not declarative"),
        ({"name": "x", "description": "", "interrupt_on": {}}, "sets interrupt_on"),
    ],
)
def test_subagents_that_cannot_be_bound_are_refused(spec: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        bound_subagents([ApprovalMiddleware(GATED)], [spec])


def test_a_subagent_cannot_bring_a_looser_gate() -> None:
    gate, looser = ApprovalMiddleware(GATED), ApprovalMiddleware({})
    specs = bound_subagents([gate], [{"name": "x", "description": "", "middleware": [looser]}])
    assert [spec["name"] for spec in specs] == ["general-purpose", "x"]
    assert all(spec["middleware"] == [gate] for spec in specs)
