"""Agents with captured workspaces, in a real container for each thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langchain_core.messages import HumanMessage

from agent import code_graph, graph
from agent.config import build_backend, load_settings
from agent.parts import captures_of
from libs.backends.docker import DockerExecutionBackend
from libs.middleware.approvals import AddressedGraph
from libs.models.scripted_model import Conversation, Reply, ScriptedChatModel, ToolUse
from libs.workspace.history import WorkspaceHistory

__all__ = ["CapturedAgent", "captured_agent", "uses"]

THREAD: Any = {"configurable": {"thread_id": "t"}}


def uses(*calls: tuple[str, dict[str, Any]]) -> Reply:
    """Return a reply that calls tools."""
    return Reply(tool_calls=tuple(ToolUse(name=name, args=args) for name, args in calls))


class CapturedAgent:
    """A graph, its history and its files. Each turn of the script begins with its own task."""

    def __init__(self, graph: AddressedGraph, history: WorkspaceHistory, folder: Path) -> None:
        self.graph = graph
        self.history = history
        self._folder = folder

    async def ask(self, task: str) -> Any:
        """Carry out a turn of a person."""
        done = await self.graph.ainvoke({"messages": [HumanMessage(task)]}, THREAD)
        await self.history.captures.settled("t")
        return done

    async def states(self) -> list[Any]:
        """Return the checkpoints, the oldest first."""
        return [each async for each in self.graph.aget_state_history(THREAD)][::-1]

    def files(self) -> dict[str, str]:
        """Return the content of each file in /results of the thread."""
        folder = self._folder / "threads" / "t" / "results"
        return {path.name: path.read_text() for path in folder.iterdir()} if folder.is_dir() else {}


@contextmanager
def captured_agent(
    kind: str, folder: Path, checkpointer: Any, *conversations: Conversation, **settings: Any
) -> Iterator[CapturedAgent]:
    """Build the deep agent (`deep`) or the code-block agent (`code`)."""
    read = load_settings(
        None,
        **{
            "workspace_dir": folder / "workspace",
            "sandbox_scope": "thread",
            "sandbox_warm": 0,
            "snapshots_url": str(folder / "snapshots"),
            "approvals": "auto",
            **settings,
        },
    )
    backend = build_backend(read)
    build = graph.build_graph if kind == "deep" else code_graph.build_graph
    model = ScriptedChatModel(conversations=conversations)
    assert isinstance(backend.default, DockerExecutionBackend)
    with backend.default:
        built = build(model, checkpointer=checkpointer, settings=read, backend=backend)
        captures = captures_of(read, backend)
        assert captures is not None
        yield CapturedAgent(built, captures.history, folder / "workspace")
