"""A saved run brings its files to its checkpoint first, and waits at its end for its captures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from libs.middleware.approvals.addressed_graph import AddressedGraph, answer_by_id
from libs.middleware.arrival import arrive_at_start
from libs.sandbox.host import on_core


class _Saver(InMemorySaver):
    """Notes the event loops that list its checkpoints."""

    def __init__(self) -> None:
        super().__init__()
        self.loops: list[asyncio.AbstractEventLoop] = []

    async def alist(self, *args: Any, **options: Any) -> AsyncIterator[CheckpointTuple]:
        self.loops.append(asyncio.get_running_loop())
        async for each in super().alist(*args, **options):
            yield each


async def test_checkpoints_are_listed_on_the_loop_of_the_caller() -> None:
    saver, asked = _Saver(), []

    @on_core
    async def arrive(_thread: str, _ticket: str | None, is_held: Callable[[str], Awaitable[bool]]) -> None:
        asked.append((asyncio.get_running_loop(), await is_held("a ticket")))

    await arrive_at_start(arrive, saver, "t", {"configurable": {"thread_id": "t"}})
    here = asyncio.get_running_loop()
    assert saver.loops == [here], "the locks of a saver belong to one loop"
    assert [(loop is here, held) for loop, held in asked] == [(False, False)]


class _Files:
    """Notes the order of a run's steps."""

    def __init__(self) -> None:
        self.noted: list[str] = []

    async def arrive(self, _thread: str, _ticket: str | None, _is_held: Any) -> None:
        self.noted.append("arrived")

    async def settled(self, _thread: str) -> None:
        await asyncio.sleep(0)
        self.noted.append("settled")


def _steps(files: _Files, *, fails: bool) -> AddressedGraph:
    def step(state: MessagesState) -> dict[str, Any]:
        files.noted.append("ran")
        if fails:
            raise ValueError("no reply")
        return {}

    builder = StateGraph(MessagesState)
    builder.add_node("step", step)
    builder.add_edge(START, "step")
    return answer_by_id(builder.compile(checkpointer=InMemorySaver()), files=files)


@pytest.mark.parametrize("fails", [False, True], ids=["ends", "fails"])
@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_run_ends_after_its_captures(way: str, *, fails: bool) -> None:
    """A program may end right after the run."""
    files = _Files()
    graph = _steps(files, fails=fails)
    given: Any = {"messages": [("user", "go")]}, {"configurable": {"thread_id": "t"}}
    run = graph.ainvoke(*given) if way == "ainvoke" else asyncio.to_thread(graph.invoke, *given)
    [failure] = await asyncio.gather(run, return_exceptions=True)
    assert isinstance(failure, ValueError) == fails
    assert files.noted == ["arrived", "ran", "settled"]
