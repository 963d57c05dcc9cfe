"""The stream of a run has the output of a command while the command runs."""

from __future__ import annotations

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

# After each part, the command waits for a file that is made when the part is shown. ä has two bytes.
PARTS = ("echo first", r"printf 'h\303'", r"printf '\244lf\n'")
COMMAND = "".join(
    f"{part}; until [ -e shown-{number} ]; do sleep 0.02; done; " for number, part in enumerate(PARTS)
)


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[CompiledStateGraph[Any, Any, Any, Any]]:
    settings = load_settings(None, workspace_dir=tmp_path, approvals="auto")
    backend = build_backend(settings)
    use = ToolUse(name="execute", args={"command": f"{COMMAND}echo last", "timeout": 30})
    model = ScriptedChatModel(
        conversations=(Conversation(replies=(Reply(tool_calls=(use,)), Reply(text="Done."))),)
    )
    with backend.default:  # type: ignore[attr-defined]
        backend.default.execute("true")  # type: ignore[attr-defined]
        yield build_graph(model, settings=settings, backend=backend)


async def test_output_is_streamed_while_the_command_runs(
    graph: CompiledStateGraph[Any, Any, Any, Any], tmp_path: Path
) -> None:
    given = {"messages": [HumanMessage("go")]}
    events: list[dict[str, Any]] = []
    async for event in graph.astream(given, stream_mode="custom"):
        (tmp_path / f"shown-{len(events)}").touch()
        events.append(event)
    assert {event["type"] for event in events} == {"output"}
    assert len({event["tool_call_id"] for event in events}) == 1
    assert events[0]["tool_call_id"]
    assert [event["text"] for event in events] == ["first\n", "h", "älf\n", "last\n"]
