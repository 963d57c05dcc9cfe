"""Tell the model what is known of a call that has no result."""

from __future__ import annotations

from typing import Any

from deepagents.middleware.patch_tool_calls import (
    PatchToolCallsMiddleware as DeepagentsPatchToolCallsMiddleware,
)
from langchain.agents.middleware.types import AgentState
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.runtime import Runtime

from libs.middleware.open_calls import stopped_text

__all__ = ["PatchToolCallsMiddleware"]


class PatchToolCallsMiddleware(DeepagentsPatchToolCallsMiddleware):
    """Replaces deepagents' middleware of the same name, which answers the calls that have no result.

    The answer of deepagents does not say that the effect of the call is unknown. Its answer to a call with
    malformed arguments, which never runs, stays.
    """

    def before_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        update = super().before_agent(state, runtime)
        calls = {
            call["id"]
            for message in state["messages"]
            if isinstance(message, AIMessage)
            for call in message.tool_calls
        }
        for message in update["messages"] if update else ():
            # Saved messages have an id.
            if isinstance(message, ToolMessage) and message.id is None and message.tool_call_id in calls:
                message.content = stopped_text(str(message.name))
        return update
