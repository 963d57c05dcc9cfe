"""The stream of a run has the output of a command while the command runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.graph.state import CompiledStateGraph

from agent import code_graph
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


@pytest.mark.parametrize("subgraphs", [True, False])
async def test_events_of_a_subagent_come_with_its_namespace(tmp_path: Path, *, subgraphs: bool) -> None:
    task = {"description": "sub", "subagent_type": "general-purpose"}
    replies = {
        "sub": (
            Reply(tool_calls=(ToolUse(name="execute", args={"command": "echo sub"}),)),
            Reply(text="Ok."),
        ),
        "go": (
            Reply(tool_calls=(ToolUse(name="execute", args={"command": "echo main"}),)),
            Reply(tool_calls=(ToolUse(name="task", args=task),)),
            Reply(text="Done."),
        ),
    }
    model = ScriptedChatModel(
        conversations=tuple(Conversation(when=when, replies=turns) for when, turns in replies.items())
    )
    settings = load_settings(None, workspace_dir=tmp_path, approvals="auto")
    backend = build_backend(settings)
    with backend.default:  # type: ignore[attr-defined]
        graph = build_graph(model, settings=settings, backend=backend)
        given = {"messages": [HumanMessage("go")]}
        parts = [part async for part in graph.astream(given, stream_mode="custom", subgraphs=subgraphs)]
    if not subgraphs:
        assert [event["text"] for event in parts] == ["main\n"]
        return
    assert [event["text"] for _, event in parts] == ["main\n", "sub\n"]
    (main, _), (sub, _) = parts
    assert main == ()
    assert sub[0].startswith("tools:")


async def test_code_block_agent_also_sends_code_and_execution(tmp_path: Path) -> None:
    settings = load_settings(None, workspace_dir=tmp_path, approvals="auto")
    backend = build_backend(settings)
    replies = (Reply(text="```python\nprint(42)\n```"), Reply(text="Done."))
    model = ScriptedChatModel(conversations=(Conversation(replies=replies),))
    with backend.default:  # type: ignore[attr-defined]
        graph = code_graph.build_graph(model, settings=settings, backend=backend)
        given = {"messages": [HumanMessage("go")]}
        code, output, execution = [event async for event in graph.astream(given, stream_mode="custom")]
    assert (code["type"], code["language"], code["code"]) == ("code", "python", "print(42)")
    assert output == {"type": "output", "tool_call_id": code["id"], "text": "42\n", "part": 0}
    assert execution.pop("seconds") >= 0
    assert execution == {
        **code,
        "type": "execution",
        "output": "42\n",
        "exit_code": 0,
    }
