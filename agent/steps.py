"""What an agent's graph tells of the steps it takes, in the words of `agent.events`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import StateSnapshot

from agent.events import Event

__all__ = ["Steps", "messages_of", "settle"]


class Steps(Protocol):
    """Reads one run of one kind of agent."""

    def read(self, mode: str, data: Any, *, subagent: bool) -> Iterator[Event]:
        """The events in one part of the stream `mode`: `tasks`, `updates` or `custom`."""
        ...

    def cut_off(self, state: StateSnapshot) -> tuple[str, Any] | None:
        """What a step that was cut off is taken to have answered, so that it is not repeated unasked.

        Returns:
            The node and its answer; None where nothing that has effects was cut off.
        """
        ...


def messages_of(update: Any) -> list[AnyMessage]:
    """The messages that a step adds; none where it replaces the whole list."""
    messages = update.get("messages", []) if isinstance(update, dict) else []
    return messages if isinstance(messages, list) else []


async def settle(graph: CompiledStateGraph[Any, Any, Any, Any], config: RunnableConfig, steps: Steps) -> None:
    """Answer the step that somebody has stopped in a thread, so that another task can follow it.

    The model reads that its effect is unknown. Does nothing where none was cut off, or where calls wait for
    approval.
    """
    state = await graph.aget_state(config)
    if not state.interrupts and (found := steps.cut_off(state)):
        node, answer = found
        await graph.aupdate_state(config, answer, as_node=node)
