"""APPROVALS=effects in the code-block agent: a person decides on blocks after they have run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command

from agent.code_graph import build_graph
from agent.settings import load_settings
from libs.backends.workspace_backend import WorkspaceBackend
from libs.middleware.approvals import AddressedGraph
from libs.models.scripted_model import Conversation, Reply, ScriptedChatModel
from libs.persistence.sqlite_saver import open_checkpointer

pytestmark = pytest.mark.docker

APPROVE = {"type": "approve"}
REJECT = {"type": "reject", "message": "not those"}


class Agent:
    """A thread of the code-block agent. Each call is answered by a new graph, as after a restart."""

    def __init__(self, backend: WorkspaceBackend, folder: Path, *replies: str) -> None:
        self._backend = backend
        self._folder = folder
        turns = tuple(Reply(text=text) for text in (*replies, "Done."))
        self._model = ScriptedChatModel(conversations=(Conversation(replies=turns),))
        self._thread: RunnableConfig = {"configurable": {"thread_id": str(uuid4())}}

    @asynccontextmanager
    async def _graph(self) -> AsyncIterator[AddressedGraph]:
        async with open_checkpointer(self._folder / "threads.sqlite") as saver:
            settings = load_settings(None, approvals="effects")
            yield build_graph(self._model, settings=settings, backend=self._backend, checkpointer=saver)

    async def begin(self) -> Any:
        async with self._graph() as graph:
            return await graph.ainvoke({"messages": [HumanMessage("go")]}, self._thread)

    async def answer(self, decision: Any) -> Any:
        async with self._graph() as graph:
            return await graph.ainvoke(Command(resume={"decisions": [decision]}), self._thread)


def blocks(*codes: tuple[str, str]) -> str:
    return "\n".join(f"```{language}\n{code}\n```" for language, code in codes)


def cards(result: Any) -> list[dict[str, Any]]:
    return [each for asked in result.get("__interrupt__", ()) for each in asked.value["action_requests"]]


def fed_back(result: Any) -> list[str]:
    """Return what the model has read about its blocks."""
    return [each.text for each in result["messages"] if each.response_metadata.get("blocks")]


async def test_blocks_are_decided_on_in_order(
    backend: WorkspaceBackend, workspace: Path, tmp_path: Path
) -> None:
    first = blocks(
        ("python", "x = 41\nopen('/results/a', 'w').write('a')"),
        ("python", "import os\nos.remove('/data/sales.csv')\nx += 1"),
        ("bash", "cat /results/a; ls /data"),
    )
    agent = Agent(backend, tmp_path, first, blocks(("python", "print('x' in globals())")))
    [card] = cards(await agent.begin())
    assert card["args"]["code"].startswith("import os")
    assert card["effect"]["deleted"] == ["/data/sales.csv"]
    assert (workspace / "results/a").read_text() == "a"

    result = await agent.answer(REJECT)
    assert not cards(result)
    undone, after = fed_back(result)
    assert (workspace / "data/sales.csv").exists()
    assert "Block 1 (python) succeeded" in undone
    assert "Block 2 (python): This execute_code call ran" in undone
    assert "not those" in undone
    assert "Block 3 (bash) was not run" in undone
    assert "a new interpreter runs this block" in after
    assert "False" in after


async def test_approved_block_runs_once_and_keeps_its_variables(
    backend: WorkspaceBackend, workspace: Path, tmp_path: Path
) -> None:
    agent = Agent(
        backend,
        tmp_path,
        blocks(("python", "x = 1\nopen('/data/log', 'a').write('once')"), ("bash", "cd /data && exit 3")),
        blocks(("python", "print(x + 1)"), ("bash", "pwd")),
    )
    assert cards(await agent.begin())
    result = await agent.answer(APPROVE)
    first, second = fed_back(result)
    assert (workspace / "data/log").read_text() == "once"
    assert "Block 2 (bash) failed with exit code 3" in first
    assert "2" in second
    assert "/data" in second
    assert [each["exit_code"] for each in result["executions"]] == [0, 3, 0, 0]
    decided = [
        mark["decision"] for each in result["messages"] for mark in each.response_metadata.get("blocks", ())
    ]
    assert [(each["by"], each["effect"]) for each in decided] == [
        ("person", "kept"),
        ("effect", "kept"),
        ("effect", "kept"),
        ("effect", "kept"),
    ]


async def test_interpreter_rests_between_blocks(
    backend: WorkspaceBackend, workspace: Path, tmp_path: Path
) -> None:
    """A thread and a process of a block do nothing until the next block, even if a command continues them."""
    ticks = (
        "import subprocess, threading, time\n"
        "def tick():\n"
        "    while True:\n"
        "        open('/results/ticks', 'a').write('x')\n"
        "        time.sleep(0.01)\n"
        "threading.Thread(target=tick, daemon=True).start()\n"
        "subprocess.Popen(['sh', '-c', 'while sleep 0.01; do echo x >> /results/ticks; done'])\n"
        "time.sleep(0.1)"
    )
    still = "a=$(stat -c %s /results/ticks); sleep 0.3; [ $a = $(stat -c %s /results/ticks) ] && echo still"
    ticking = "read = lambda: open('/results/ticks').read()\na = read(); time.sleep(0.3)\nprint(a != read())"
    agent = Agent(
        backend,
        tmp_path,
        blocks(("python", ticks), ("bash", still)),
        blocks(("bash", "kill -CONT -1; sleep 0.1"), ("bash", still)),
        blocks(("python", ticking)),
    )
    result = await agent.begin()
    assert not cards(result)
    first, second, third = fed_back(result)
    assert "still" in first
    assert "still" in second
    assert "True" in third


async def test_effect_that_nobody_decided_on_is_undone_by_the_next_task(
    backend: WorkspaceBackend, workspace: Path, tmp_path: Path
) -> None:
    agent = Agent(backend, tmp_path, blocks(("bash", "rm /data/sales.csv")), blocks(("bash", "ls /data")))
    assert cards(await agent.begin())
    [listed] = fed_back(await agent.begin())
    assert "sales.csv" in listed
    assert (workspace / "data/sales.csv").exists()
