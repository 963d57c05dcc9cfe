"""A thread of the one-tool agent goes back, and is copied: files, values and what the memory recalls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from langchain_core.messages import HumanMessage

from agent.run import open_runtime
from agent.run.runtime import Runtime
from agent.threads.memory_store import build_database, build_memory

pytestmark = pytest.mark.docker

PROGRAM = """\
import json, kv, pathlib
log = pathlib.Path("log.txt")
print(json.dumps({"answer": f"{kv.get('n', 0)} {log.read_text() if log.exists() else ''}"}))
kv.put("n", kv.get("n", 0) + 1)
log.open("a").write("x")
"""


@pytest.fixture
def _script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    script = [{"tool_calls": [{"name": "execute_code", "args": {"code": PROGRAM}}]}] * 6
    Path("script.yaml").write_text(yaml.safe_dump(script))
    monkeypatch.setenv("MODEL", "scripted:script.yaml")
    monkeypatch.setenv("APPROVALS", "auto")


@pytest.fixture
async def runtime(_script: None) -> AsyncIterator[Runtime]:
    async with open_runtime(sandbox_warm=0) as made:
        yield made


async def turn(runtime: Runtime, words: str, thread: str = "t") -> str:
    """Return what the program found: the value, and the file."""
    run = await runtime.run(thread, "exec")
    async for _ in run.begin(words):
        pass
    return str((await state(runtime, thread))["messages"][-1].text)


async def state(runtime: Runtime, thread: str) -> dict[str, Any]:
    found = await runtime.state(thread)
    assert found is not None
    return found.values


async def recalled(runtime: Runtime, word: str) -> list[str]:
    """Return the messages of the person that the memory finds."""
    database = build_database(runtime.settings)
    found = await build_memory(runtime.settings, database).messages.recall(word, 9, thread="t")
    await asyncio.to_thread(database.close)
    return sorted(each.text for each in found.messages if each.role == "user")


async def test_files_and_values_go_back_and_return(runtime: Runtime) -> None:
    assert [(await turn(runtime, f"colour {number}")).split("\n")[0] for number in (1, 2, 3)] == [
        "0",
        "1 x",
        "2 xx",
    ]
    points = await runtime.points("t")
    moved = await points.go_to(1)
    assert moved.restored.difference.changed == ("/workspace/.kv/n", "/workspace/log.txt")
    assert await points.can_undo()
    await points.undo()
    assert [point.words for point in await points.points()][1:] == ["colour 1", "colour 2", "colour 3"]
    await points.go_to(1)
    assert (await turn(runtime, "colour 4")).startswith("1 x\n")
    assert await recalled(runtime, "colour") == ["colour 1", "colour 4"]
    await points.go_to(0)
    assert (await turn(runtime, "colour 5")).startswith("0\n")


@pytest.mark.thorough
async def test_langgraphs_own_fork_brings_the_files(runtime: Runtime) -> None:
    await turn(runtime, "first")
    points = await runtime.points("t")
    end = (await points.points())[1].checkpoint
    await turn(runtime, "second")
    at: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": end}}
    graph = (await runtime.run("t", "exec")).graph
    result = await graph.ainvoke({"messages": [HumanMessage("another")]}, at)
    assert result["messages"][-1].text.startswith("1 x\n")


async def test_copy_has_the_files_of_its_turn(runtime: Runtime) -> None:
    """In the workspace of all threads, too: the programs of a thread have files of their own."""
    for number in (1, 2):
        await turn(runtime, f"turn {number}")
    await runtime.fork("t", 1, copy="c")
    assert (await turn(runtime, "in the copy", "c")).startswith("1 x\n")
    assert (await turn(runtime, "turn 3")).startswith("2 xx\n")
