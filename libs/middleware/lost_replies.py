"""Ask the model again after a reply whose calls cannot be read, and say of an answer that it was cut off."""

from __future__ import annotations

from typing import Any

from langchain.agents.middleware import hook_config
from langchain.agents.middleware.types import AgentMiddleware, AgentState
from langchain_core.messages import AIMessage
from langgraph.runtime import Runtime

from libs.middleware.program_messages import told

__all__ = ["AsksAgain", "is_cut_off"]

_LENGTH = {"length", "max_tokens", "MAX_TOKENS"}
"""Finish reasons of providers for a reply that reached the greatest length."""
_UNREADABLE = (
    "No call of your reply was run: its arguments are malformed or were cut off. Send it again, shorter "
    "if it was cut off."
)
_CUT_OFF = "[This reply reached its greatest length and was cut off.]"


def is_cut_off(reply: AIMessage) -> bool:
    """Return whether the provider says that a reply was cut off at its greatest length."""
    return not _LENGTH.isdisjoint(map(str, reply.response_metadata.values()))


class AsksAgain(AgentMiddleware[AgentState[Any], Any, Any]):
    """Asks again after a reply in which no call can be read, and marks an answer that was cut off.

    Without this middleware, such a reply would end the run as completed. List this middleware last.
    """

    @hook_config(can_jump_to=["model"])
    def after_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        reply = state["messages"][-1]
        if not isinstance(reply, AIMessage) or reply.tool_calls:
            return None
        if reply.invalid_tool_calls:
            # LangChain answers a call that has an id.
            unanswered = any(call["id"] is None for call in reply.invalid_tool_calls)
            return {"messages": [told(_UNREADABLE)] if unanswered else [], "jump_to": "model"}
        if is_cut_off(reply):
            text = f"{reply.text}\n\n{_CUT_OFF}".lstrip()
            return {"messages": [reply.model_copy(update={"content": text})]}
        return None
