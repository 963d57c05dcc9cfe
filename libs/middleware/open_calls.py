"""Find the tool calls of a reply that have no answer yet, and answer a call that does not run."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import AIMessage, AnyMessage, ToolCall, ToolMessage

__all__ = ["call_key", "not_run", "open_calls", "stopped_text"]


def open_calls(messages: Sequence[AnyMessage]) -> list[ToolCall]:
    """Return the calls of the latest reply that have no answer yet."""
    answered: set[str | None] = set()
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            return [call for call in message.tool_calls if call["id"] not in answered]
        if isinstance(message, ToolMessage):
            answered.add(message.tool_call_id)
    return []


def call_key(messages: Sequence[AnyMessage], call_id: str | None) -> str | None:
    """Return the key `<message id>/<call id>`. The call id alone is not unique: some models repeat ids."""
    if not call_id:
        return None
    for message in reversed(messages):
        if isinstance(message, AIMessage) and any(call["id"] == call_id for call in message.tool_calls):
            return f"{message.id}/{call_id}" if message.id else call_id
    return call_id


def not_run(name: str, call_id: str | None, text: str) -> ToolMessage:
    """Return the error that answers a call in place of its tool."""
    return ToolMessage(text, name=name, tool_call_id=call_id or "", status="error")


def stopped_text(name: str) -> str:
    """Return the text for the model about a call of which no result is saved."""
    return (
        f"This {name} call never began, was stopped with all its processes, was undone, or ended without a "
        "saved result. Its effect is unknown: look before you repeat anything."
    )
