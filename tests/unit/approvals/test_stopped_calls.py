"""What the model of the deep agent reads about a call that was stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from agent.graph import build_graph
from agent.settings import load_settings
from libs.middleware.open_calls import stopped_text
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
