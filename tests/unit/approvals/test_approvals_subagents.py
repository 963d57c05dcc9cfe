"""Approvals in subagents: the same gate as in the main agent, and each answer reaches its own question."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from libs.middleware.approvals.addressed_answers import NothingWaits
from libs.middleware.approvals.approval_middleware import ApprovalMiddleware
from libs.middleware.subagents import bound_subagents
from tests.support.gated_agents import (
    APPROVE,
    GATED,
    REJECT,
    after_restart,
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
    waiting,
)


async def test_parallel_subagents_wait_across_restarts(tmp_path: Path) -> None:
    model = scripted(
        {
            "left": [[run("left1")], [run("left2")], "ok"],
            "right": [[run("right1")], "ok"],
            "go": [[task("left"), task("right"), run("main")], "done"],
        }
    )

    async def step(given: Any) -> dict[str, Any]:
        return await after_restart(tmp_path, model, given)

    assert waiting(await step(say("go"))).keys() == {"main"}
    ids = waiting(await step(decide(APPROVE)))
    assert ids.keys() == {"left1", "right1"}
    assert ran(tmp_path) == ["main"]
    for without_ids in (decide(APPROVE), decide(APPROVE, REJECT)):
        again = await step(without_ids)
        ids = waiting(again)
        assert ids.keys() == {"left1", "right1"}, "the order of parallel questions is not certain"
        assert all(
            "while 2 questions waited. Answer each under the id of its interrupt" in q["error"]
            and not re.search(r"[0-9a-f]{32}", q["error"])  # another id now
            for q in questions(again)
        )
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


def test_answer_never_decides_a_later_question(tmp_path: Path) -> None:
    """The outermost checkpoint keeps a bare answer while a subagent goes on to its next question."""
    model = scripted({"sub": [[run("one")], [run("two")], "ok"], "go": [[task("sub")], "done"]})
    graph = agent(tmp_path, model, checkpointer=InMemorySaver())
    graph.invoke(say("go"), thread())
    answer = {"decisions": [APPROVE]}
    graph.invoke(Command(resume=answer), thread())
    leftovers: list[Any] = [Command(resume={"f" * 32: answer}), None, Command(resume={})]
    for leftover in leftovers:
        assert len(questions(graph.invoke(leftover, thread()))) == 1
        assert ran(tmp_path) == ["one"]


def test_unknown_id_is_dropped_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    graph = agent(tmp_path, scripted({"go": [[run("one")], "done"]}), checkpointer=InMemorySaver())
    asked = waiting(graph.invoke(say("go"), thread()))
    unknown = "f" * 32
    again = waiting(graph.invoke(Command(resume={unknown: {"decisions": [APPROVE]}}), thread()))
    assert (again, ran(tmp_path)) == (asked, [])
    [record] = [each for each in caplog.records if unknown in each.message]
    assert record.message == (
        f"No question has the id {unknown}, so that answer was dropped. These questions wait: {asked['one']}."
    )


def test_repeated_run_does_not_answer_its_own_question(tmp_path: Path) -> None:
    """A server repeats a killed run with its input, here the approval of the first command."""
    model = scripted({"sub": [[run("one")], [run("two")], "ok"], "go": [[task("sub")], "done"]})
    graph = agent(tmp_path, model, checkpointer=InMemorySaver())

    def served(given: Any, run_id: str) -> dict[str, Any]:
        result: dict[str, Any] = graph.invoke(given, {"configurable": {"thread_id": "1", "run_id": run_id}})
        return result

    served(say("go"), "run-1")
    for _ in range(2):
        assert len(questions(served(decide(APPROVE), "run-2"))) == 1
        assert ran(tmp_path) == ["one"]
    for _ in range(2):
        assert served(decide(APPROVE), "run-3")["messages"][-1].text == "done"
        assert ran(tmp_path) == ["one", "two"]
    with pytest.raises(NothingWaits):
        served(decide(APPROVE), "run-4")


async def test_answer_in_a_thread_without_a_question_is_refused(tmp_path: Path) -> None:
    graph = agent(tmp_path, scripted({"go": ["hello", [run("one")], "done"]}), checkpointer=InMemorySaver())

    async def refused(config: Any) -> None:
        for answer in (decide(APPROVE), Command(resume="x"), Command(resume={})):
            with pytest.raises(NothingWaits, match="Nothing in this thread waits for approval"):
                graph.invoke(answer, config)
            with pytest.raises(NothingWaits):
                await graph.ainvoke(answer, config)

    await refused(thread())
    graph.invoke(say("go"), thread())
    await refused(thread())
    graph.invoke(Command(resume="x", update={"messages": []}), thread())
    assert len(questions(graph.invoke(say("go on"), thread()))) == 1
    assert ran(tmp_path) == []


def test_subagents_ask_before_gated_tools(tmp_path: Path) -> None:
    helper = {"name": "helper", "description": "helps", "system_prompt": "Help."}
    model = scripted({"sub": [[run("one")], "ok"], "go": [[task("sub", "helper")], "done"]})
    graph = agent(tmp_path, model, checkpointer=InMemorySaver(), subagents=[helper])
    assert len(questions(graph.invoke(say("go"), thread()))) == 1
    assert ran(tmp_path) == []
    graph.invoke(decide(APPROVE), thread())
    assert ran(tmp_path) == ["one"]


@pytest.mark.parametrize("key", ["runnable", "graph_id", "interrupt_on"])
def test_subagents_without_middleware_are_refused(key: str) -> None:
    spec: Any = {"name": "x", "description": "", key: None}
    with pytest.raises(ValueError, match="Subagent 'x'"):
        bound_subagents([ApprovalMiddleware(GATED)], [spec])


def test_subagent_cannot_replace_the_gate() -> None:
    gate, looser = ApprovalMiddleware(GATED), ApprovalMiddleware({})
    specs = bound_subagents([gate], [{"name": "x", "description": "", "middleware": [looser]}])
    assert [spec["name"] for spec in specs] == ["general-purpose", "x"]
    assert all(spec["middleware"] == [gate] for spec in specs)
