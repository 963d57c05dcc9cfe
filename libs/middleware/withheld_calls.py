"""Calls that do not say what the model wrote, since a secret was taken out of them, do not run."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from langchain.agents.middleware.types import AgentMiddleware, AgentState
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.runtime import Runtime

__all__ = ["WITHHELD", "WithheldCalls"]

WITHHELD = (
    "it held the value of a secret of this installation, which [REDACTED] stands for here: no secret goes "
    "through a conversation. Where one is needed, let the command read it from a variable of the sandbox's "
    "environment."
)
"""Why such a call or block was not run, for the model to read."""


class WithheldCalls(AgentMiddleware[Any, Any, Any]):
    """Answers such calls in the tool's place, before anybody is asked about them.

    Run without its secret a call would do something else than the model meant: `[REDACTED]` is a pattern to
    a shell. So nothing is ever run that differs from what was written, or from what was approved. List it
    behind the approvals: of the hooks after the model, those listed last come first.

    Args:
        not_as_written: whether a secret was taken out of one of these texts of a reply.
    """

    def __init__(self, not_as_written: Callable[[AIMessage, Sequence[str]], bool]) -> None:
        super().__init__()
        self._not_as_written = not_as_written

    def after_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """Answer the calls of the latest reply that a secret was taken out of."""
        reply = state["messages"][-1]
        if not isinstance(reply, AIMessage):
            return None
        answers = [
            ToolMessage(
                f"This {call['name']} call was not run: {WITHHELD}",
                name=call["name"],
                tool_call_id=str(call["id"]),
                status="error",
            )
            for call in reply.tool_calls
            if self._not_as_written(reply, [json.dumps(call["args"])])
        ]
        return {"messages": answers} if answers else None

    async def aafter_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """As `after_model`."""
        return self.after_model(state, runtime)
