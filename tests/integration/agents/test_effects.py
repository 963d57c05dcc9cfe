"""APPROVALS=effects in the deep agent: commands run at once, and a person decides on what they have done."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command

from agent.config import build_backend
from agent.graph import build_graph
from agent.settings import load_settings
from libs.backends.workspace_backend import WorkspaceBackend
from libs.middleware.approvals import AddressedGraph
from libs.models.scripted_model import Conversation, Reply, ScriptedChatModel, ToolUse
from libs.persistence.sqlite_saver import open_checkpointer

pytestmark = pytest.mark.docker

APPROVE = {"type": "approve"}
REJECT = {"type": "reject", "message": "those are the originals"}


def model(*replies: list[str]) -> ScriptedChatModel:
    """Return a model that sends these commands, one list for each reply."""
    turns = [
        Reply(tool_calls=tuple(ToolUse(name="execute", args={"command": each}) for each in commands))
        for commands in replies
    ]
    return ScriptedChatModel(conversations=(Conversation(when="go", replies=(*turns, Reply(text="Done."))),))


class Agent:
    """A thread of the deep agent. Each call is answered by a new graph, as after a restart."""

    def __init__(self, backend: WorkspaceBackend, folder: Path, *replies: list[str]) -> None:
        self._backend = backend
        self._folder = folder
        self.model = model(*replies)
        self.approvals = "effects"
        self.thread: RunnableConfig = {"configurable": {"thread_id": str(uuid4())}}

    @asynccontextmanager
    async def graph(self) -> AsyncIterator[AddressedGraph]:
        async with open_checkpointer(self._folder / "threads.sqlite") as saver:
            settings = load_settings(None, approvals=self.approvals)
            yield build_graph(self.model, settings=settings, backend=self._backend, checkpointer=saver)

    async def begin(self) -> Any:
        async with self.graph() as graph:
            return await graph.ainvoke({"messages": [HumanMessage("go")]}, self.thread)

    async def answer(self, *decisions: Any) -> Any:
        async with self.graph() as graph:
            return await graph.ainvoke(Command(resume={"decisions": list(decisions)}), self.thread)


def cards(result: Any) -> list[dict[str, Any]]:
    """Return the requests of the pending questions."""
    return [each for asked in result.get("__interrupt__", ()) for each in asked.value["action_requests"]]


def answers(result: Any) -> list[ToolMessage]:
    return [message for message in result["messages"] if isinstance(message, ToolMessage)]


async def test_command_with_a_free_effect_is_not_asked_about(
    backend: WorkspaceBackend, workspace: Path, tmp_path: Path
) -> None:
    agent = Agent(backend, tmp_path, ["mkdir -p /results/a && echo 1 > /results/a/x && echo said"])
    result = await agent.begin()
    assert not cards(result)
    [answer] = answers(result)
    assert "said" in answer.text
    assert answer.response_metadata["decision"]["by"] == "effect"
    assert (workspace / "results/a/x").read_text() == "1\n"


async def test_rejected_effect_is_undone(backend: WorkspaceBackend, workspace: Path, tmp_path: Path) -> None:
    (workspace / "data/notes.txt").write_text("first\nsecond\n")
    before = (workspace / "data/sales.csv").read_bytes()
    command = "rm /data/sales.csv; sed -i s/second/third/ /data/notes.txt; echo new > /data/made; echo gone"
    agent = Agent(backend, tmp_path, [command])
    result = await agent.begin()
    [card] = cards(result)
    assert not (workspace / "data/sales.csv").exists()
    effect = card["effect"]
    assert (effect["created"], effect["changed"], effect["deleted"]) == (
        ["/data/made"],
        ["/data/notes.txt"],
        ["/data/sales.csv"],
    )
    assert (effect["exit_code"], effect["output"]) == (0, "gone\n")
    assert "```diff\n" in card["description"]
    assert "-second\n+third\n" in card["description"]
    [asked] = result["__interrupt__"]
    assert asked.value["review_configs"] == [
        {"action_name": "execute", "allowed_decisions": ["approve", "reject"]}
    ]

    [answer] = answers(await agent.answer(REJECT))
    assert (workspace / "data/sales.csv").read_bytes() == before
    assert (workspace / "data/notes.txt").read_text() == "first\nsecond\n"
    assert not (workspace / "data/made").exists()
    assert "those are the originals" in answer.text
    assert "/data/sales.csv" in answer.text


async def test_approved_effect_stays_and_the_command_runs_once(
    backend: WorkspaceBackend, workspace: Path, tmp_path: Path
) -> None:
    agent = Agent(backend, tmp_path, ["echo again >> /data/log; echo said"])
    assert cards(await agent.begin())
    [answer] = answers(await agent.answer(APPROVE))
    assert "said" in answer.text
    assert (workspace / "data/log").read_text() == "again\n"


async def test_effect_that_nobody_decided_on_is_undone_by_the_next_task(
    backend: WorkspaceBackend, workspace: Path, tmp_path: Path
) -> None:
    agent = Agent(backend, tmp_path, ["rm /data/sales.csv; echo > /data/made"])
    assert cards(await agent.begin())
    result = await agent.begin()
    assert not cards(result)
    assert (workspace / "data/sales.csv").exists()
    assert not (workspace / "data/made").exists()


async def test_waiting_effect_is_undone_after_approvals_were_set_to_ask(
    backend: WorkspaceBackend, workspace: Path, tmp_path: Path
) -> None:
    agent = Agent(backend, tmp_path, ["rm /data/sales.csv"])
    assert cards(await agent.begin())
    agent.approvals = "ask"
    [answer] = answers(await agent.answer(REJECT))
    assert "Brought back: /data/sales.csv" in answer.text
    assert (workspace / "data/sales.csv").exists()


async def test_calls_of_one_reply_are_decided_in_order(
    backend: WorkspaceBackend, workspace: Path, tmp_path: Path
) -> None:
    agent = Agent(
        backend,
        tmp_path,
        ["echo a > /data/a; echo 1 >> /results/order", "echo b > /data/b; echo 2 >> /results/order"],
    )
    [first] = cards(await agent.begin())
    assert first["effect"]["created"] == ["/data/a", "/results/order"]
    assert not (workspace / "data/b").exists()
    [second] = cards(await agent.answer(REJECT))
    assert second["effect"]["created"] == ["/data/b", "/results/order"]
    done = await agent.answer(APPROVE)
    assert not cards(done)
    assert not (workspace / "data/a").exists()
    assert (workspace / "data/b").read_text() == "b\n"
    assert (workspace / "results/order").read_text() == "2\n"
    assert len(answers(done)) == 2


async def test_what_a_command_leaves_running_ends_with_it(
    backend: WorkspaceBackend, workspace: Path, tmp_path: Path
) -> None:
    left = "(setsid sh -c 'while sleep 0.05; do echo x >> /results/ticks; done' &) ; echo begun"
    agent = Agent(
        backend, tmp_path, [left], ["cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c '[w]hile sleep'"]
    )
    [_, count] = answers(await agent.begin())
    assert count.artifact["output"].startswith("0")


async def test_command_that_cannot_be_undone_is_asked_about_first(
    backend: WorkspaceBackend, workspace: Path, tmp_path: Path
) -> None:
    agent = Agent(backend, tmp_path, ["mkfifo /results/pipe"], ["echo 1 > /results/x"])
    [card] = cards(await agent.begin())
    assert card["effect"]["created"] == ["/results/pipe"]
    [first] = cards(await agent.answer(APPROVE))
    assert "effect" not in first
    assert "/results/pipe (a FIFO)" in first["description"]
    assert not (workspace / "results/x").exists()
    assert not cards(await agent.answer(APPROVE))
    assert (workspace / "results/x").read_text() == "1\n"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("mkfifo /data/pipe", "but nothing of that could be undone. Not undone: /data/pipe (a FIFO)"),
        ("mkfifo /data/pipe; echo > /data/x", "so that was undone in part. Deleted again: /data/x."),
    ],
)
async def test_model_is_told_how_much_was_undone(
    backend: WorkspaceBackend, tmp_path: Path, command: str, told: str
) -> None:
    agent = Agent(backend, tmp_path, [command])
    assert cards(await agent.begin())
    [answer] = answers(await agent.answer(REJECT))
    assert told in answer.text


async def test_subagents_are_decided_on_by_effect(
    backend: WorkspaceBackend, workspace: Path, tmp_path: Path
) -> None:
    agent = Agent(backend, tmp_path)
    execute = ToolUse(name="execute", args={"command": "rm /data/sales.csv"})
    task = ToolUse(name="task", args={"description": "clean", "subagent_type": "general-purpose"})
    agent.model = ScriptedChatModel(
        conversations=(
            Conversation(when="clean", replies=(Reply(tool_calls=(execute,)), Reply(text="Cleaned."))),
            Conversation(when="go", replies=(Reply(tool_calls=(task,)), Reply(text="Done."))),
        )
    )
    [card] = cards(await agent.begin())
    assert card["effect"]["deleted"] == ["/data/sales.csv"]
    result = await agent.answer(REJECT)
    assert result["messages"][-1].text == "Done."
    assert (workspace / "data/sales.csv").exists()


async def test_files_in_a_closed_folder_are_brought_back(
    backend: WorkspaceBackend, workspace: Path, tmp_path: Path
) -> None:
    """Nobody can look into the folder that the command leaves."""
    agent = Agent(
        backend,
        tmp_path,
        ["mkdir /results/d && echo 1 > /results/d/x"],
        ["rm /results/d/x; chmod 0 /results/d"],
    )
    [card] = cards(await agent.begin())
    assert card["effect"]["changed"] == ["/results/d"]
    assert "/results/d: permission denied" in card["description"]
    [*_, answer] = answers(await agent.answer(REJECT))
    assert "/results/d/x" not in answer.text.partition("Not undone")[2]
    assert (workspace / "results/d/x").is_file(), answer.text
    assert (workspace / "results/d/x").read_text() == "1\n"


async def test_command_that_needs_the_network_is_undone_and_asked_about(
    workspace: Path, tmp_path: Path
) -> None:
    settings = load_settings(None, workspace_dir=workspace, egress_allow="http://allowed.invalid")
    backend = build_backend(settings)
    curl = "touch /data/x; curl -s http://allowed.invalid/ http://other.invalid/"
    agent = Agent(backend, tmp_path, ["curl -s http://other.invalid/"], [curl])
    with backend.default:  # type: ignore[attr-defined]
        result = await agent.begin()
        [card] = cards(result)
        assert answers(result)  # a host that no approval would open is no reason to ask
        assert "effect" not in card
        assert "asks for allowed.invalid" in card["description"]
        assert not (workspace / "data/x").exists(), card["description"]
        [_, answer] = answers(await agent.answer(APPROVE))
    assert (workspace / "data/x").exists()
    assert "allowed.invalid" in answer.text
    assert "before a person has approved" not in answer.text
