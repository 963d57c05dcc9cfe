"""A step is in the checkpointer before the next begins, whatever a caller asks for (S16, V2)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.checkpoint.base import Checkpoint, CheckpointMetadata
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.constants import CONFIG_KEY_CHECKPOINTER
from langgraph.graph import START, MessagesState, StateGraph

from libs.middleware.answers import AddressedGraph, answer_by_id


class Slow(InMemorySaver):
    """Takes its time, as a disk may."""

    kept: Sequence[AnyMessage] = ()

    def put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: Any
    ) -> RunnableConfig:
        time.sleep(0.05)
        self.kept = checkpoint["channel_values"].get("messages", ())
        return super().put(config, checkpoint, metadata, new_versions)

    async def aput(self, *args: Any) -> RunnableConfig:
        return await asyncio.to_thread(self.put, *args)


def replying(saver: Slow | None, **options: Any) -> tuple[AddressedGraph, list[int]]:
    """A graph whose second step notes how many messages are kept when it begins."""
    seen: list[int] = []

    def run(state: MessagesState) -> dict[str, Any]:
        seen.append(len(saver.kept) if saver else 0)
        return {}

    async def arun(state: MessagesState) -> dict[str, Any]:
        return run(state)

    builder = StateGraph(MessagesState)
    builder.add_node("model", lambda state: {"messages": [AIMessage("run it")]})
    builder.add_node("run", RunnableLambda(run, afunc=arun))
    builder.add_edge(START, "model")
    builder.add_edge("model", "run")
    return answer_by_id(builder.compile(**options)), seen


@pytest.mark.parametrize("asked", [{}, {"durability": "async"}, {"durability": "sync"}])
@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_a_command_never_runs_ahead_of_the_reply_that_asks_for_it(
    way: str, asked: dict[str, Any]
) -> None:
    saver = Slow()
    graph, seen = replying(saver, checkpointer=saver)
    given = {"messages": [HumanMessage("go")]}, {"configurable": {"thread_id": "t"}}
    if way == "invoke":
        await asyncio.to_thread(graph.invoke, *given, **asked)
    else:
        await graph.ainvoke(*given, **asked)
    assert seen == [2]


@pytest.mark.parametrize("asked", [{}, {"durability": "async"}, {"durability": "sync"}])
@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_without_a_checkpointer_nothing_is_asked_of_it(way: str, asked: dict[str, Any]) -> None:
    """As LangGraph's server runs a graph without a thread: it asks for a durability all the same."""
    graph, seen = replying(None)
    given = {"messages": [HumanMessage("go")]}
    if way == "invoke":
        await asyncio.to_thread(graph.invoke, given, **asked)
    else:
        await graph.ainvoke(given, **asked)
    assert seen == [0]


async def test_the_saver_that_a_server_brings_in_the_config_counts() -> None:
    saver = Slow()
    graph, seen = replying(saver)
    config = {"configurable": {"thread_id": "t", CONFIG_KEY_CHECKPOINTER: saver}}
    await graph.ainvoke({"messages": [HumanMessage("go")]}, config, durability="async")
    assert seen == [2]
