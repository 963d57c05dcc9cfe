"""Approvals that outlive their block, in the code-block agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from code_loops import TASK, bash, looping, outputs, playing, python
from gated_agents import APPROVE, COMMAND, REJECT, TOOL, decide, questions, say, thread
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from agent import code_graph
from agent.code_graph import EDITS, BlockApprovals
from libs.middleware.grants import revoke, standing, standing_in

ONE, TWO = bash("echo one"), bash("echo two")


def gated(folder: Path, *replies: str, saver: Any = None, **options: Any) -> Any:
    return looping(
        folder, playing(*replies), gate=BlockApprovals(), checkpointer=saver or InMemorySaver(), **options
    )


def asked(result: dict[str, Any]) -> list[str]:
    """The code of the blocks that are asked about."""
    [question] = questions(result)
    return [request["args"]["code"] for request in question["action_requests"]]


def test_the_exact_block_is_asked_about_once(tmp_path: Path) -> None:
    with gated(tmp_path, ONE, ONE, bash("echo one "), "Done.") as graph:
        graph.invoke(say(TASK), thread())
        result = graph.invoke(decide(COMMAND), thread())
        assert (outputs(result), asked(result)) == (["one", "one"], ["echo one "])
        [approved] = {each["granted"] for each in _approved(graph) if each["code"] == "echo one"} - {None}
        assert approved == "command"


def test_the_same_code_in_the_other_language_is_asked_about(tmp_path: Path) -> None:
    with gated(tmp_path, bash("exit"), python("exit"), "Done.") as graph:
        graph.invoke(say(TASK), thread())
        assert asked(graph.invoke(decide(COMMAND), thread())) == ["exit"]


def test_the_tool_is_both_languages(tmp_path: Path) -> None:
    with gated(tmp_path, ONE, python("print(2)"), "Done.") as graph:
        graph.invoke(say(TASK), thread())
        result = graph.invoke(decide(TOOL), thread())
        assert (outputs(result), result["status"]) == (["one", "2"], "completed")
        assert {each["granted"] for each in _approved(graph)} == {None, "tool"}


def test_a_mixed_reply_asks_for_the_rest(tmp_path: Path) -> None:
    reply = f"{TWO}\n{ONE}\n{python('print(3)')}"
    with gated(tmp_path, ONE, reply, "Done.") as graph:
        graph.invoke(say(TASK), thread())
        waiting = graph.invoke(decide(COMMAND), thread())
        assert (outputs(waiting), asked(waiting)) == (["one"], ["echo two", "print(3)"])
        assert outputs(graph.invoke(decide(REJECT, APPROVE), thread())) == ["one", "one", "3"]


def test_an_edited_block_grants_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_graph, "INTERRUPT_ON", {"execute_code": ("approve", "reject", "edit")})
    edit = {"name": "execute_code", "args": {"language": "bash", "code": "echo two"}}
    wrong = {**edit, "args": {"language": "perl", "code": "echo two"}}
    with gated(tmp_path, f"{ONE}\n{ONE}", TWO, ONE, "Done.") as graph:
        graph.edits = EDITS
        graph.invoke(say(TASK), thread())
        [again] = questions(graph.invoke(decide(COMMAND, {"type": "edit", "edited_action": wrong}), thread()))
        assert "language" in again["error"]
        assert not standing(graph.get_state(thread()).values.get("grants")), "refused as a whole"
        result = graph.invoke(decide(COMMAND, {"type": "edit", "edited_action": edit}), thread())
        assert (outputs(result), asked(result)) == (["one", "two"], ["echo two"])
        assert outputs(graph.invoke(decide(REJECT), thread())) == ["one", "two", "one"]


@pytest.mark.parametrize("wrong", [APPROVE | {"scope": "all"}, REJECT | {"scope": "tool"}])
def test_a_wrong_scope_is_refused_and_asked_again(tmp_path: Path, wrong: Any) -> None:
    with gated(tmp_path, ONE, "Done.") as graph:
        graph.invoke(say(TASK), thread())
        [again] = questions(graph.invoke(decide(wrong), thread()))
        assert again["error"].startswith("decisions[0].scope")
        assert outputs(graph.invoke(decide(APPROVE), thread())) == ["one"]


def test_another_thread_asks_and_no_input_grants(tmp_path: Path) -> None:
    grants = {"execute_code/*": {"tool": "execute_code", "digest": None, "shown": "", "question": ""}}
    smuggled = {"grants": grants, "grants_at_reply": grants}
    with gated(tmp_path, ONE, "Done.") as graph:
        assert not smuggled.keys() & graph.get_input_jsonschema()["properties"].keys()
        graph.invoke(say(TASK), thread())
        graph.invoke(decide(TOOL), thread())
        assert asked(graph.invoke({**say(TASK), **smuggled}, thread("2"))) == ["echo one"]
        assert not standing(graph.get_state(thread("2")).values.get("grants"))


async def test_grants_hold_after_a_restart_until_they_are_revoked(tmp_path: Path) -> None:
    async def step(given: Any) -> dict[str, Any]:
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
            replies = (ONE, ONE, "Done.", "Hello.", "Hello.", ONE, "Done.", ONE, "Done.")
            with gated(tmp_path, *replies, saver=saver) as graph:
                result: dict[str, Any] = await graph.ainvoke(given, thread())
                return result

    await step(say(TASK))
    assert not questions(await step(decide(COMMAND)))
    await step(say("Hello!"))
    assert outputs(await step(say(TASK))) == ["one"]
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
        saved = await saver.aget_tuple(thread())
        assert saved is not None
        assert [grant["tool"] for grant in standing_in(saved).values()] == ["execute_code"]
        await revoke(saver, saved, list(standing_in(saved)))
    assert asked(await step(say(TASK))) == ["echo one"]


def _approved(graph: Any) -> list[dict[str, Any]]:
    """The record of every block of the thread."""
    return [
        each
        for state in graph.get_state_history(thread())
        if "run" in state.next
        for each in state.values["approved"]
    ]
