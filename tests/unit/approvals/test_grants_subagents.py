"""Grants and subagents: a grant belongs to the whole thread, wherever it was given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command

from libs.middleware.approvals.grants import revoke, standing, standing_in
from libs.models.scripted_model import ToolUse
from tests.support.gated_agents import (
    APPROVE,
    COMMAND,
    REJECT,
    TOOL,
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


def playing(folder: Path, **scripts: Any) -> Any:
    return agent(folder, scripted(scripts), checkpointer=InMemorySaver())


def test_grant_of_a_subagent_covers_the_whole_thread(tmp_path: Path) -> None:
    graph = playing(
        tmp_path,
        sub=[[run("one")], [run("one")], "ok"],
        other=[[run("one")], "ok"],
        go=[[task("sub")], [run("one"), task("other")], "done"],
    )
    graph.invoke(say("go"), thread())
    result = graph.invoke(decide(COMMAND), thread())
    assert not questions(result)
    assert ran(tmp_path) == ["one"] * 4
    assert len(standing(graph.get_state(thread()).values["grants"])) == 1
    assert_answered_once(result["messages"])


async def test_parallel_subagents_share_grants_across_restarts(tmp_path: Path) -> None:
    """Each step uses a new graph on the same database. The state shows each grant at once."""
    model = scripted(
        {
            "left": [[run("left1")], "ok"],
            "right": [[run("right1")], [run("left1")], [run("right1")], [run("right2")], "ok"],
            "go": [[task("left"), task("right")], [run("left1")], "done"],
        }
    )

    async def step(given: Any) -> dict[str, str]:
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as saver:
            graph = agent(tmp_path, model, checkpointer=saver)
            result = waiting(await graph.ainvoke(given, thread()))
            saved = await saver.aget_tuple(thread())
            assert saved is not None
            shown = standing((await graph.aget_state(thread())).values.get("grants"))
            assert standing_in(saved) == shown
            given_for.append([grant["shown"].split()[-3] for grant in shown.values()])
            return result

    given_for: list[list[str]] = []
    ids = await step(say("go"))
    assert ids.keys() == {"left1", "right1"}
    assert (await step(Command(resume={ids["left1"]: {"decisions": [COMMAND]}}))).keys() == {"right1"}
    assert (await step(decide(COMMAND))).keys() == {"right2"}
    assert sorted(ran(tmp_path)) == ["left1", "left1", "right1", "right1"]
    assert not await step(decide(APPROVE))
    assert sorted(ran(tmp_path)) == ["left1", "left1", "left1", "right1", "right1", "right2"]
    assert given_for == [[], ["left1"], ["left1", "right1"], ["left1", "right1"]]


def test_rejection_holds_beside_the_grant_of_a_parallel_subagent(tmp_path: Path) -> None:
    graph = playing(
        tmp_path,
        left=[[run("left1")], "ok"],
        right=[[run("right1")], [run("right2")], "ok"],
        go=[[task("left"), task("right")], "done"],
    )
    ids = waiting(graph.invoke(say("go"), thread()))
    answers = {ids["left1"]: {"decisions": [TOOL]}, ids["right1"]: {"decisions": [REJECT]}}
    assert not questions(graph.invoke(Command(resume=answers), thread()))
    assert sorted(ran(tmp_path)) == ["left1", "right2"]


def test_grant_does_not_answer_a_waiting_question(tmp_path: Path) -> None:
    graph = playing(
        tmp_path,
        left=[[run("left1")], "ok"],
        right=[[run("right1")], "ok"],
        go=[[task("left"), task("right")], "done"],
    )
    ids = waiting(graph.invoke(say("go"), thread()))
    result = graph.invoke(Command(resume={ids["left1"]: {"decisions": [TOOL]}}), thread())
    assert waiting(result).keys() == {"right1"}
    graph.invoke(decide(REJECT), thread())
    assert ran(tmp_path) == ["left1"]


async def test_revoking_does_not_restart_a_waiting_subagent(tmp_path: Path) -> None:
    graph = playing(
        tmp_path, sub=[[run("one")], [run("two")], [run("one")], "ok"], go=[[task("sub")], "done"]
    )
    graph.invoke(say("go"), thread())
    assert waiting(graph.invoke(decide(COMMAND), thread())).keys() == {"two"}
    saved = graph.checkpointer.get_tuple(thread())
    await revoke(graph.checkpointer, saved, list(standing_in(saved)))
    assert not standing(graph.get_state(thread()).values["grants"])
    assert len(graph.get_state(thread()).interrupts) == 1
    assert waiting(graph.invoke(decide(COMMAND), thread())).keys() == {"one"}
    assert ran(tmp_path) == ["one", "two"]
    graph.invoke(decide(REJECT), thread())
    assert ran(tmp_path) == ["one", "two"]


async def test_new_message_drops_the_question_and_keeps_grants(tmp_path: Path) -> None:
    model = scripted({"sub": [[run("one")], [run("two")], "ok"], "go": [[task("sub")], [run("one")], "done"]})
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as saver:
        graph = agent(tmp_path, model, checkpointer=saver)
        await graph.ainvoke(say("go"), thread())
        assert waiting(await graph.ainvoke(decide(COMMAND), thread())).keys() == {"two"}
        result = await graph.ainvoke(say("something else"), thread())
    assert not questions(result)
    assert ran(tmp_path) == ["one", "one"]


def test_graph_inside_a_tool_uses_the_grants_of_its_own_thread(tmp_path: Path) -> None:
    inner = playing(tmp_path, inside=[[run("two")], "ok"])

    def delegate() -> str:
        """Run another agent, in a thread of its own."""
        return str(len(questions(inner.invoke(say("inside"), thread("2")))))

    class Delegating(AgentMiddleware[Any, Any, Any]):
        tools = (StructuredTool.from_function(delegate),)

    graph = agent(
        tmp_path,
        scripted({"go": [[run("one")], [ToolUse(name="delegate", args={})], "done"]}),
        checkpointer=InMemorySaver(),
        before=[Delegating()],
    )
    graph.invoke(say("go"), thread())
    result = graph.invoke(decide(TOOL), thread())
    assert ran(tmp_path) == ["one"]
    assert result["messages"][-2].text == "1"
