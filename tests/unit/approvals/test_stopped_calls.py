"""What the model of the deep agent reads about a call that was stopped, or that cannot be kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from agent.graph import build_graph
from agent.settings import load_settings
from libs.middleware.kept_calls import kept_reply
from libs.middleware.open_calls import stopped_text
from libs.models.scripted_model import Reply, ToolUse
from tests.support.exec_tool.exec_runners import playing
from tests.support.gated_agents import say, scripted, thread


def test_next_run_says_that_the_effect_of_a_stopped_call_is_unknown(tmp_path: Path) -> None:
    settings = load_settings(None, workspace_dir=tmp_path, approvals="auto")
    graph = build_graph(scripted({"go": ["", "Done."]}), checkpointer=InMemorySaver(), settings=settings)
    calls: Any = [
        {"name": "execute", "args": {"command": word}, "id": word, "type": "tool_call"}
        for word in ("ended", "stopped")
    ]
    malformed: Any = {
        "name": "ls",
        "args": "{",
        "id": "malformed",
        "error": None,
        "type": "invalid_tool_call",
    }
    saved = [
        HumanMessage("go"),
        AIMessage("", tool_calls=calls, invalid_tool_calls=[malformed]),
        ToolMessage("7", tool_call_id="ended"),
    ]
    graph.update_state(thread(), {"messages": saved}, as_node="__start__")
    messages = graph.invoke(say("And now?"), thread())["messages"]
    told = {message.tool_call_id: message.text for message in messages if isinstance(message, ToolMessage)}
    assert told["ended"] == "7"
    assert told["stopped"] == stopped_text("execute")
    assert "malformed" in told["malformed"]
    assert [message.type for message in messages] == ["human", "ai", "tool", "tool", "tool", "human", "ai"]


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("a\ud800b", "a\ufffdb"),
        ({"\udcff": 1}, {"\ufffd": 1}),
        (2**64, "0x10000000000000000"),
        (-(2**63) - 1, "-0x8000000000000001"),
        (nested(1_000), None),
    ],
)
def test_call_that_cannot_be_kept_is_answered(given: Any, kept: Any) -> None:
    calls: Any = [
        {"name": "tool", "args": {"x": value}, "id": name, "type": "tool_call"}
        for name, value in (
            ("bad", given),
            ("good", [2**64 - 1, -(2**63), nested(100), float("nan"), "\U0001f600"]),
        )
    ]
    content: Any = [{"type": "tool_use", "id": "bad", "name": "tool", "input": {"x": given}}]
    reply, answer = kept_reply([AIMessage(content, tool_calls=calls)])
    assert isinstance(reply, AIMessage)
    assert isinstance(answer, ToolMessage)
    assert reply.tool_calls[1] == calls[1]
    if kept is not None:
        assert reply.tool_calls[0]["args"] == {"x": kept}
    assert (answer.tool_call_id, answer.status) == ("bad", "error")
    assert "This tool call was not run: its arguments hold half of a surrogate pair" in answer.text
    form, data = JsonPlusSerializer().dumps_typed([reply, answer])
    [read, _] = JsonPlusSerializer().loads_typed((form, data))
    assert str(read) == str(reply), "no value is changed when it is kept"


@pytest.mark.parametrize("approvals", ["ask", "auto"])
def test_call_that_cannot_be_kept_is_not_asked_about(tmp_path: Path, approvals: str) -> None:
    settings = load_settings(None, workspace_dir=tmp_path, approvals=approvals)
    call = ToolUse(name="delete", args={"file_path": "/workspace/a\udcff"})
    model = playing(Reply(tool_calls=(call,)), "Done.")
    graph = build_graph(model, checkpointer=InMemorySaver(), settings=settings)
    messages = graph.invoke(say("go"), thread())["messages"]
    assert [message.type for message in messages] == ["human", "ai", "tool", "ai"]
    assert "was not run" in messages[2].text
