"""What a secret was taken out of does not run: nothing runs that was not written or approved so (G6, H6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from code_loops import bash, looping, playing
from gated_agents import (
    APPROVE,
    GATED,
    agent,
    assert_answered_once,
    decide,
    questions,
    ran,
    say,
    scripted,
    task,
    thread,
)
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from agent.sinks import clean_input, withheld
from libs.gateway.redaction import SecretFilter
from libs.middleware.answers import AddressedGraph
from libs.middleware.approval_middleware import ApprovalMiddleware
from libs.middleware.withheld_calls import WithheldCalls
from libs.models.redacted import redacted_model
from libs.models.scripted import ToolUse

KEY = "sk-canary-Ab12Cd34"
KNOWN = SecretFilter({"KEY": KEY})
MARK = "[REDACTED]"


def run(command: str) -> ToolUse:
    return ToolUse(name="execute", args={"command": f"echo {command} >> ran.txt"})


def build(folder: Path, scripts: Any, *, gate: bool = True) -> tuple[AddressedGraph, InMemorySaver]:
    saver = InMemorySaver()
    model = redacted_model(scripted(scripts), KNOWN)
    gates = [ApprovalMiddleware(GATED), WithheldCalls(withheld)] if gate else [WithheldCalls(withheld)]
    made = agent(folder, model, checkpointer=saver, middleware=gates)
    made.clean = clean_input(KNOWN) or made.clean
    return made, saver


class TestCalls:
    @pytest.mark.parametrize("gate", [True, False])
    def test_it_is_not_run_and_nobody_is_asked(self, tmp_path: Path, gate: bool) -> None:
        graph, saver = build(tmp_path, {"go": [[run(f"x-{KEY}")], "Done."]}, gate=gate)
        result = graph.invoke(say("go"), thread())
        assert not questions(result)
        assert ran(tmp_path) == []
        answer = result["messages"][-2]
        assert answer.status == "error"
        assert "was not run" in answer.text
        assert "[REDACTED] stands for" in answer.text
        assert_answered_once(result["messages"])
        assert KEY not in repr(saver.storage) + repr(saver.writes) + repr(saver.blobs)

    def test_the_other_calls_of_the_reply_are_asked_about(self, tmp_path: Path) -> None:
        graph, _ = build(tmp_path, {"go": [[run("one"), run(f"x-{KEY}"), run("two")], "Done."]})
        [question] = questions(graph.invoke(say("go"), thread()))
        assert [request["args"]["command"] for request in question["action_requests"]] == [
            "echo one >> ran.txt",
            "echo two >> ran.txt",
        ]
        result = graph.invoke(decide(APPROVE, APPROVE), thread())
        assert sorted(ran(tmp_path)) == ["one", "two"]
        assert_answered_once(result["messages"])

    def test_a_call_that_quotes_the_mark_is_run(self, tmp_path: Path) -> None:
        graph, _ = build(tmp_path, {"go": [[run("'[REDACTED]'")], "Done."]})
        [question] = questions(graph.invoke(say("go"), thread()))
        assert "[REDACTED]" in question["action_requests"][0]["description"]
        graph.invoke(decide(APPROVE), thread())
        assert ran(tmp_path) == ["[REDACTED]"]

    def test_of_a_subagent(self, tmp_path: Path) -> None:
        graph, _ = build(tmp_path, {"go": [[task("part")], "Done."], "part": [[run(KEY)], f"I know {KEY}."]})
        result = graph.invoke(say("go"), thread())
        assert not questions(result)
        assert ran(tmp_path) == []
        assert result["messages"][-2].text == f"I know {MARK}."


class TestWhatPeopleSend:
    def test_it_is_taken_out_before_anything_is_kept(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        graph, saver = build(tmp_path, {"": ["Fine."]})
        result = graph.invoke(say(f"use {KEY}"), thread())
        assert result["messages"][0].text == f"use {MARK}"
        assert "what was sent holds a secret" in caplog.text
        graph.update_state(thread(), {"messages": [HumanMessage(f"and {KEY}")]})
        kept = repr(list(saver.list(thread()))) + repr(saver.writes) + repr(saver.blobs)
        assert KEY not in kept + caplog.text
        assert kept.count(MARK) >= 2

    def test_a_reason_for_a_rejection(self, tmp_path: Path) -> None:
        graph, saver = build(tmp_path, {"go": [[run("one")], "Done."]})
        graph.invoke(say("go"), thread())
        result = graph.invoke(decide({"type": "reject", "message": f"not with {KEY}"}), thread())
        assert f"not with {MARK}" in result["messages"][-2].text
        assert KEY not in repr(saver.storage) + repr(saver.writes) + repr(saver.blobs)

    def test_an_edit_that_holds_one_is_refused_and_asked_again(self, tmp_path: Path) -> None:
        edit = ToolUse(
            name="edit_file", args={"file_path": str(tmp_path / "a"), "old_string": "a", "new_string": "b"}
        )
        (tmp_path / "a").write_text("a")
        graph, _ = build(tmp_path, {"go": [[edit], "Done."]})
        graph.invoke(say("go"), thread())
        args = {**edit.args, "new_string": f"key = {KEY}"}
        changed = {"type": "edit", "edited_action": {"name": "edit_file", "args": args}}
        [question] = questions(graph.invoke(decide(changed), thread()))
        assert "hold a secret" in question["error"]
        assert (tmp_path / "a").read_text() == "a"
        graph.invoke(decide(APPROVE), thread())
        assert (tmp_path / "a").read_text() == "b"

    async def test_the_same_for_asynchronous_callers(self, tmp_path: Path) -> None:
        graph, saver = build(tmp_path, {"": [[run("one")], "Done."]})
        await graph.ainvoke(say(f"use {KEY}"), thread())
        await graph.aupdate_state(thread(), {"messages": [HumanMessage(KEY, id="1")]}, as_node="model")
        await graph.ainvoke(Command(resume={"decisions": []}), thread())
        assert KEY not in repr(saver.storage) + repr(saver.writes) + repr(saver.blobs)


class TestBlocks:
    def test_they_are_not_run_and_the_model_is_told(self, tmp_path: Path) -> None:
        ran = tmp_path / "ran.txt"
        model = redacted_model(
            playing(bash(f"echo {KEY} >> {ran}"), bash(f"echo fine >> {ran}"), "Done."), KNOWN
        )
        with looping(tmp_path, model, withheld=withheld) as graph:
            result = graph.invoke({"messages": [HumanMessage("Count the rows of /data/sales.csv.")]})
        assert ran.read_text() == "fine\n"
        assert result["status"] == "completed"
        assert "your code held the value of a secret" in result["messages"][2].text
        assert MARK in result["messages"][1].text
        assert KEY not in repr(result)

    def test_words_beside_a_block_hold_nothing_up(self, tmp_path: Path) -> None:
        model = redacted_model(playing(f"I know {KEY}.\n{bash('echo fine')}", f"It is {KEY}."), KNOWN)
        with looping(tmp_path, model, withheld=withheld) as graph:
            result = graph.invoke({"messages": [HumanMessage("Count the rows of /data/sales.csv.")]})
        assert [each["output"] for each in result["executions"]] == ["fine\n"]
        assert result["messages"][-1].text == f"It is {MARK}."
