"""Find the tool calls of a reply that have no answer yet, and answer a call that does not run."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import AIMessage, AnyMessage, ToolCall, ToolMessage

__all__ = ["not_run", "open_calls", "stopped_text"]


def open_calls(messages: Sequence[AnyMessage]) -> list[ToolCall]:
    """Return the calls of the latest reply that have no answer yet."""
    answered: set[str | None] = set()
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            return [call for call in message.tool_calls if call["id"] not in answered]
        if isinstance(message, ToolMessage):
            answered.add(message.tool_call_id)
    return []


def not_run(name: str, call_id: str | None, text: str) -> ToolMessage:
    """Return the error that answers a call in place of its tool."""
    return ToolMessage(text, name=name, tool_call_id=call_id or "", status="error")


def stopped_text(name: str) -> str:
    """Return the text for the model about a call that was stopped, or that never began."""
    return (
        f"This {name} call never began, or it was stopped together with all processes that it started. Its "
        "effect is unknown: look before you repeat anything."
    )
