"""Hooks before the end of a run: send the model back to work, or append text to its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import END, StateGraph

from libs.code_blocks.block_state import CodeState
from libs.code_blocks.block_turn import as_node, with_words

__all__ = ["ENDING", "Ending", "add_ending"]

ENDING = "ending"
"""The node after the model's answer."""
_LAST_WORDS = "last_words"


@dataclass(frozen=True, slots=True)
class Ending:
    """The hooks."""

    objections: Callable[[], Awaitable[str | None]]
    """Returns what the model has to repair before the run can end, or None."""
    prepared: Callable[[], Awaitable[Any]]
    """Returns the value for `last_words`, which the state saves. A false value skips `last_words`."""
    last_words: Callable[[Any], Awaitable[str]]
    """Returns the text to append to the answer. May interrupt; called in its own node."""


def add_ending(builder: StateGraph[Any, Any, Any, Any], ending: Ending) -> None:
    """Add the nodes between the model's answer and the end.

    Two nodes, because LangGraph repeats a node that interrupts: `prepared` must run once only.
    """

    async def prepare(_: CodeState) -> dict[str, Any]:
        return {"ending": await ending.prepared()}

    async def say(state: CodeState) -> dict[str, Any]:
        prepared, reply = state.get("ending"), state["messages"][-1]
        if not prepared or not isinstance(reply, AIMessage):
            return {}
        return {"messages": [with_words(reply, await ending.last_words(prepared))], "ending": None}

    builder.add_node(ENDING, as_node(prepare))
    builder.add_node(_LAST_WORDS, as_node(say))
    builder.add_edge(ENDING, _LAST_WORDS)
    builder.add_edge(_LAST_WORDS, END)
