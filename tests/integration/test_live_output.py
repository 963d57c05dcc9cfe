"""A command's output reaches whoever streams the run while the command still runs (S6)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.graph.state import CompiledStateGraph

from agent.config import build_backend, load_settings
from agent.graph import build_graph
from libs.models.scripted import Conversation, Reply, ScriptedChatModel, ToolUse

pytestmark = pytest.mark.docker

# The ä is written in two halves, a second apart.
COMMAND = r"echo first; printf 'h\303'; sleep 1; printf '\244lf\n'; sleep 1; echo last"


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


def check(events: list[tuple[float, dict[str, Any]]], ended: float) -> None:
    assert {event["type"] for _, event in events} == {"output"}
    assert len({event["tool_call_id"] for _, event in events}) == 1
    assert events[0][1]["tool_call_id"]
    assert "".join(event["text"] for _, event in events) == "first\nhälf\nlast\n"
    assert ended - events[0][0] > 1.5, "the first line came before the command ended"


async def test_async(graph: CompiledStateGraph[Any, Any, Any, Any]) -> None:
    events = []
    async for event in graph.astream({"messages": [HumanMessage("go")]}, stream_mode="custom"):
        events.append((time.monotonic(), event))
        await asyncio.sleep(0)
    check(events, time.monotonic())


def test_sync(graph: CompiledStateGraph[Any, Any, Any, Any]) -> None:
    stream = graph.stream({"messages": [HumanMessage("go")]}, stream_mode="custom")
    events = [(time.monotonic(), event) for event in stream]
    check(events, time.monotonic())
