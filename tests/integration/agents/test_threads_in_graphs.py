"""Graphs with SANDBOX_SCOPE=thread: files, variables and subagents belong to one thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from agent import code_graph, graph
from agent.config import Settings, build_backend, load_settings
from libs.backends.docker import DockerExecutionBackend
from libs.backends.workspace_backend import WorkspaceBackend
from libs.models.scripted_model import Conversation, Reply, ScriptedChatModel, ToolUse

pytestmark = pytest.mark.docker


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "sales.csv").write_text("region,amount\nNorth,1\nSouth,2\n")
    return load_settings(None, workspace_dir=tmp_path, sandbox_scope="thread", approvals="auto")


@pytest.fixture
async def backend(settings: Settings) -> AsyncIterator[WorkspaceBackend]:
    backend = build_backend(settings)
    assert isinstance(backend.default, DockerExecutionBackend)
    with backend.default:
        yield backend


def thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


def ask() -> dict[str, Any]:
    return {"messages": [HumanMessage("Go on.")]}


def playing(*replies: Reply) -> ScriptedChatModel:
    return ScriptedChatModel(conversations=(Conversation(replies=replies),))


async def test_blocks_share_variables_and_folder_within_a_thread_alone(
    settings: Settings, backend: WorkspaceBackend
) -> None:
    code = "name = globals().get('name', '') + 'x'\nopen('f', 'a').write(name)\nprint(name, open('f').read())"
    block = f"```python\n{code}\n```"
    model = playing(*[Reply(text=block), Reply(text="Done.")] * 3)
    agent = code_graph.build_graph(model, checkpointer=InMemorySaver(), settings=settings, backend=backend)
    one, two = thread(str(uuid4())), thread(str(uuid4()))  # new ones: no earlier program has run in them
    first = await agent.ainvoke(ask(), one)
    other, again = await asyncio.gather(agent.ainvoke(ask(), two), agent.ainvoke(ask(), one))
    printed = [result["executions"][0]["output"] for result in (first, other, again)]
    assert printed == ["x x\n", "x x\n", "xx xxx\n"]
    # The listing shows the data that all threads share.
    assert "sales.csv (" in (await agent.aget_state(two)).values["opening"][0].text


async def test_tools_and_subagents_work_in_the_computer_of_the_thread(
    settings: Settings, backend: WorkspaceBackend
) -> None:
    def use(name: str, **args: Any) -> Reply:
        return Reply(tool_calls=(ToolUse(name=name, args=args),))

    own = (
        use("write_file", file_path="/results/note.txt", content="mine"),
        use("task", description="Read the note.", subagent_type="general-purpose"),
        Reply(text="Done."),
    )
    below = (
        use("execute", command="cat /results/note.txt; ls /workspace/threads"),
        Reply(text="It is read."),
    )
    model = ScriptedChatModel(
        conversations=(Conversation(when="Read the note", replies=below), Conversation(replies=own * 2))
    )
    agent = graph.build_graph(model, checkpointer=InMemorySaver(), settings=settings, backend=backend)
    for name in ("one", "two"):
        result = await agent.ainvoke(ask(), thread(name))
        written = next(m for m in result["messages"] if isinstance(m, ToolMessage))
        # Both threads use the same path, and neither finds the file of the other.
        assert written.status == "success", written.text
        read = next(m for m in result["messages"] if isinstance(m, ToolMessage) and m.name == "task")
        assert "It is read." in read.text
        place = settings.workspace_of(name) / "results" / "note.txt"
        assert place.read_text() == "mine"
    assert not (settings.workspace_dir / "results" / "note.txt").exists()
