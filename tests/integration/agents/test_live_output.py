"""The stream of a run has the output of a command while the command runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.graph.state import CompiledStateGraph

from agent.config import build_backend, load_settings
from agent.graph import build_graph
from libs.models.scripted_model import Conversation, Reply, ScriptedChatModel, ToolUse

pytestmark = pytest.mark.docker

# The command writes the two bytes of ä half a second apart.
COMMAND = r"echo first; printf 'h\303'; sleep 0.5; printf '\244lf\n'; sleep 0.5; echo last"


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[CompiledStateGraph[Any, Any, Any, Any]]:
    settings = load_settings(None, workspace_dir=tmp_path, approvals="auto")
    backend = build_backend(settings)
    use = ToolUse(name="execute", args={"command": COMMAND})
    model = ScriptedChatModel(
        conversations=(Conversation(replies=(Reply(tool_calls=(use,)), Reply(text="Done."))),)
    )
    with backend.default:  # type: ignore[attr-defined]
        backend.default.execute("true")  # type: ignore[attr-defined]
        yield build_graph(model, settings=settings, backend=backend)


async def test_output_is_streamed_while_the_command_runs(
    graph: CompiledStateGraph[Any, Any, Any, Any],
) -> None:
    given = {"messages": [HumanMessage("go")]}
    events = [(time.monotonic(), event) async for event in graph.astream(given, stream_mode="custom")]
    assert {event["type"] for _, event in events} == {"output"}
    assert len({event["tool_call_id"] for _, event in events}) == 1
    assert events[0][1]["tool_call_id"]
    assert "".join(event["text"] for _, event in events) == "first\nhälf\nlast\n"
    assert time.monotonic() - events[0][0] > 0.75, "the first line came before the command ended"
