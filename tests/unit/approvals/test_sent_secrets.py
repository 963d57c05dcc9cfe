"""Known secrets are removed from what people send, before anything is saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from agent.secrets.redaction_guards import clean_input
from libs.middleware.approvals.addressed_graph import AddressedGraph
from libs.middleware.approvals.approval_middleware import ApprovalMiddleware
from libs.models.scripted_model import ToolUse
from libs.redaction import SecretFilter
from tests.support.gated_agents import APPROVE, GATED, agent, decide, questions, say, scripted, thread

KEY = "sk-canary-Ab12Cd34"
KNOWN = SecretFilter({"KEY": KEY})
MARK = "[REDACTED]"


def run(command: str) -> ToolUse:
    return ToolUse(name="execute", args={"command": f"echo {command} >> ran.txt"})


def build(folder: Path, scripts: Any) -> tuple[AddressedGraph, InMemorySaver]:
    saver = InMemorySaver()
    made = agent(folder, scripted(scripts), checkpointer=saver, middleware=[ApprovalMiddleware(GATED)])
    made.clean = clean_input(KNOWN) or made.clean
    return made, saver


class TestRedactedInput:
    def test_secret_is_removed_before_anything_is_saved(
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

    def test_secret_in_a_rejection_is_removed(self, tmp_path: Path) -> None:
        graph, saver = build(tmp_path, {"go": [[run("one")], "Done."]})
        graph.invoke(say("go"), thread())
        result = graph.invoke(decide({"type": "reject", "message": f"not with {KEY}"}), thread())
        assert f"not with {MARK}" in result["messages"][-2].text
        assert KEY not in repr(saver.storage) + repr(saver.writes) + repr(saver.blobs)

    def test_edit_with_a_secret_is_refused(self, tmp_path: Path) -> None:
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

    async def test_async_inputs_are_redacted(self, tmp_path: Path) -> None:
        graph, saver = build(tmp_path, {"": [[run("one")], "Done."]})
        await graph.ainvoke(say(f"use {KEY}"), thread())
        await graph.aupdate_state(thread(), {"messages": [HumanMessage(KEY, id="1")]}, as_node="model")
        await graph.ainvoke(Command(resume={"decisions": []}), thread())
        assert KEY not in repr(saver.storage) + repr(saver.writes) + repr(saver.blobs)
