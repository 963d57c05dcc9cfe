"""APPROVALS=effects in the one-tool agent: programs run at once, and a person decides on changed files."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command

from agent.exec_graph import build_graph
from agent.parts.exec_parts import build_exec_parts
from agent.settings import load_settings
from libs.middleware.approvals import AddressedGraph
from libs.models.scripted_model import Reply
from libs.persistence.sqlite_saver import open_checkpointer
from libs.persistence.thread_store import ThreadStore
from tests.support.exec_tool.exec_runners import playing, program

pytestmark = pytest.mark.docker

APPROVE = {"type": "approve"}
REJECT = {"type": "reject", "message": "the old figures are needed"}
WITH_FILES = {"a.txt": b"first\n", "b.txt": b"second\n"}
THREAD: RunnableConfig = {"configurable": {"thread_id": "t"}}

CHANGES = """
import os
with open("a.txt", "a") as file: file.write("more\\n")
os.remove("b.txt")
for name in ("new.txt", "results/plot.txt"):
    with open(name, "w") as file: file.write("new")
print('{"answer": "Changed."}')
"""


class Agent:
    """A thread with the files `WITH_FILES`. Each call is answered by new parts, as after a restart."""

    def __init__(self, folder: Path, *replies: Reply | str) -> None:
        self._folder = folder
        self.model = playing(*replies)

    @asynccontextmanager
    async def parts(self) -> AsyncIterator[tuple[AddressedGraph, ThreadStore]]:
        settings = load_settings(
            None, workspace_dir=self._folder / "workspace", approvals="effects", exec_seconds=120
        )
        parts = build_exec_parts(settings)
        try:
            async with open_checkpointer(self._folder / "threads.sqlite") as saver:
                graph = build_graph(self.model, settings=settings, parts=parts, checkpointer=saver)
                yield graph, ThreadStore(parts.database)
        finally:
            parts.close()

    async def begin(self) -> Any:
        async with self.parts() as (graph, store):
            await store.keep("t", WITH_FILES, ())
            return await graph.ainvoke({"messages": [HumanMessage("go")]}, THREAD)

    async def answer(self, decision: Any) -> Any:
        async with self.parts() as (graph, _):
            return await graph.ainvoke(Command(resume={"decisions": [decision]}), THREAD)

    async def files(self) -> dict[str, bytes]:
        async with self.parts() as (_, store):
            return dict(await store.files("t"))

    def results(self) -> list[str]:
        """Return the names of the results in the workspace of the person."""
        return [path.name for path in (self._folder / "workspace").glob("results/*")]


def cards(result: Any) -> list[dict[str, Any]]:
    """Return the requests of the pending questions."""
    return [each for asked in result.get("__interrupt__", ()) for each in asked.value["action_requests"]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def test_program_with_a_free_effect_is_not_asked_about(folder: Path) -> None:
    code = "for name in ('new', 'results/x'): open(name, 'w').write('1')\nprint('{\"answer\": \"Done.\"}')"
    agent = Agent(folder, program(code))
    result = await agent.begin()
    assert not cards(result)
    assert result["messages"][-1].text.startswith("Done.")
    [tool] = [each for each in result["messages"] if isinstance(each, ToolMessage)]
    assert tool.response_metadata["decision"]["by"] == "effect"
    assert await agent.files() == {**WITH_FILES, "new": b"1", "results/x": b"1"}
    assert agent.results() == ["x"]


async def test_approved_effect_stays_and_the_program_runs_once(folder: Path) -> None:
    agent = Agent(folder, program(CHANGES))
    [card] = cards(await agent.begin())
    assert (card["effect"]["changed"], card["effect"]["deleted"]) == (
        ["/workspace/a.txt"],
        ["/workspace/b.txt"],
    )
    assert card["effect"]["created"] == ["/results/plot.txt", "/workspace/new.txt"]
    assert card["effect"]["output"] == '{"answer": "Changed."}\n'
    assert "+more" in card["description"]
    assert agent.results() == []
    result = await agent.answer(APPROVE)
    assert result["messages"][-1].text.startswith("Changed.")
    assert await agent.files() == {"a.txt": b"first\nmore\n", "new.txt": b"new", "results/plot.txt": b"new"}
    assert agent.results() == ["plot.txt"]


async def test_rejected_effect_is_undone(folder: Path) -> None:
    agent = Agent(folder, program(CHANGES), "I leave them.", "I leave them.")
    assert cards(await agent.begin())
    result = await agent.answer(REJECT)
    [tool] = [each for each in result["messages"] if isinstance(each, ToolMessage)]
    assert "Brought back: /workspace/b.txt." in tool.text
    assert "the old figures are needed" in tool.text
    assert await agent.files() == WITH_FILES
    assert agent.results() == []


async def test_program_that_uses_values_is_undone_and_asked_about(folder: Path) -> None:
    code = "open('a.txt', 'w').write('x')\nimport kv; kv.put('n', 1)\nprint('{\"answer\": \"Put.\"}')"
    agent = Agent(folder, program(code))
    [card] = cards(await agent.begin())
    assert "effect" not in card
    assert "without network, and undone: it asks for kv.gateway" in card["description"]
    assert await agent.files() == WITH_FILES
    result = await agent.answer(APPROVE)
    assert result["messages"][-1].text.startswith("Put.")
    assert (await agent.files())["a.txt"] == b"x"
    async with agent.parts() as (_, store):
        assert await store.get("t", "n") == "1"


async def test_program_with_dependencies_is_asked_about_first(folder: Path) -> None:
    agent = Agent(folder, program("print('[1]')", dependencies=["polars"]))
    [card] = cards(await agent.begin())
    assert "effect" not in card
    assert card["args"]["dependencies"] == ["polars"]


async def test_effect_that_nobody_decided_on_is_undone_by_the_next_task(folder: Path) -> None:
    agent = Agent(folder, program(CHANGES), *["Nothing to do."] * 4)
    assert cards(await agent.begin())
    async with agent.parts() as (graph, _):
        assert not cards(await graph.ainvoke({"messages": [HumanMessage("never mind")]}, THREAD))
    assert await agent.files() == WITH_FILES
