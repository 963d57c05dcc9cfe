"""A step is saved before the next step begins, whatever durability the caller sets."""

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

from libs.middleware.approvals.addressed_graph import AddressedGraph, answer_by_id


class Slow(InMemorySaver):
    """A slow checkpointer."""

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
    """A graph whose second step records how many messages are saved when the step begins."""
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


@pytest.mark.parametrize("durability", [{}, {"durability": "async"}], ids=["unset", "async"])
@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
@pytest.mark.parametrize("kept", [True, False])
async def test_reply_is_saved_before_its_command_runs(
    way: str, durability: dict[str, Any], kept: bool
) -> None:
    """LangGraph's server sets a durability for runs without a checkpointer too."""
    saver = Slow() if kept else None
    graph, seen = replying(saver, checkpointer=saver)
    given = {"messages": [HumanMessage("go")]}, {"configurable": {"thread_id": "t"}}
    if way == "invoke":
        await asyncio.to_thread(graph.invoke, *given, **durability)
    else:
        await graph.ainvoke(*given, **durability)
    assert seen == [2 if kept else 0]


async def test_saver_in_the_config_is_used() -> None:
    saver = Slow()
    graph, seen = replying(saver)
    config = {"configurable": {"thread_id": "t", CONFIG_KEY_CHECKPOINTER: saver}}
    await graph.ainvoke({"messages": [HumanMessage("go")]}, config, durability="async")
    assert seen == [2]
