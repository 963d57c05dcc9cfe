"""Approvals for the thread, given in a subagent or before one: they are the thread's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gated_agents import (
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
)
from langchain.agents.middleware import AgentMiddleware
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command

from libs.middleware.grants import revoke, standing, standing_in
from libs.models.scripted import ToolUse


def waiting(result: dict[str, Any]) -> dict[str, str]:
    """What waits: the word of the first command of each question, and the id of the question."""
    return {
        each.value["action_requests"][0]["args"]["command"].split()[1]: each.id
        for each in result.get("__interrupt__", ())
    }


def playing(folder: Path, **scripts: Any) -> Any:
    return agent(folder, scripted(scripts), checkpointer=InMemorySaver())


@pytest.mark.parametrize("decision", [COMMAND, TOOL])
def test_what_the_agent_was_granted_holds_in_its_subagents(tmp_path: Path, decision: Any) -> None:
    graph = playing(tmp_path, sub=[[run("one")], "ok"], go=[[run("one")], [task("sub")], "done"])
    graph.invoke(say("go"), thread())
    assert not questions(graph.invoke(decide(decision), thread()))
    assert ran(tmp_path) == ["one", "one"]


@pytest.mark.parametrize("decision", [COMMAND, TOOL])
def test_what_a_subagent_was_granted_is_the_threads(tmp_path: Path, decision: Any) -> None:
    graph = playing(
        tmp_path,
        sub=[[run("one")], [run("one")], "ok"],
        other=[[run("one")], "ok"],
        go=[[task("sub")], [run("one"), task("other")], "done"],
    )
    graph.invoke(say("go"), thread())
    result = graph.invoke(decide(decision), thread())
    assert not questions(result)
    assert ran(tmp_path) == ["one"] * 4
    assert len(standing(graph.get_state(thread()).values["grants"])) == 1
    assert_answered_once(result["messages"])


async def test_parallel_subagents_share_them_across_restarts(tmp_path: Path) -> None:
    """Every step in a new graph on the same database; the thread shows each grant as soon as it is given."""
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


def test_a_rejection_stands_beside_the_grant_of_a_parallel_subagent(tmp_path: Path) -> None:
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


def test_a_question_that_waits_is_not_answered_by_the_grant_of_another(tmp_path: Path) -> None:
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


async def test_revoking_leaves_a_waiting_subagent_where_it_is(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("revoked", [False, True])
async def test_a_new_message_drops_what_waits_and_not_what_was_granted(tmp_path: Path, revoked: bool) -> None:
    model = scripted({"sub": [[run("one")], [run("two")], "ok"], "go": [[task("sub")], [run("one")], "done"]})
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as saver:
        graph = agent(tmp_path, model, checkpointer=saver)
        await graph.ainvoke(say("go"), thread())
        assert waiting(await graph.ainvoke(decide(COMMAND), thread())).keys() == {"two"}
        if revoked:
            saved = await saver.aget_tuple(thread())
            assert saved is not None
            await revoke(saver, saved, list(standing_in(saved)))
        result = await graph.ainvoke(say("something else"), thread())
    assert bool(questions(result)) == revoked
    assert ran(tmp_path) == (["one"] if revoked else ["one", "one"])


def test_an_unknown_scope_in_a_subagent_is_asked_again(tmp_path: Path) -> None:
    graph = playing(tmp_path, sub=[[run("one")], "ok"], go=[[task("sub")], "done"])
    graph.invoke(say("go"), thread())
    [again] = questions(graph.invoke(decide({"type": "approve", "scope": "all"}), thread()))
    assert again["error"].startswith("decisions[0].scope")
    graph.invoke(decide(APPROVE), thread())
    assert ran(tmp_path) == ["one"]


def test_a_graph_run_by_a_tool_has_only_the_grants_of_its_own_thread(tmp_path: Path) -> None:
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
