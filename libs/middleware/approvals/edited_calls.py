"""Marks the calls of a reply that a person has edited, so that the thread shows the call that ran.

The calls of the reply stay as the model wrote them. The mark is in the metadata of the reply, under
`"edited_calls"`: tool call id -> the arguments that ran.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessage, ToolCall

__all__ = ["calls_as_run", "edited_in", "with_edits"]

_MARK = "edited_calls"


def with_edits(reply: AIMessage, edits: Mapping[str, Mapping[str, Any]]) -> AIMessage:
    """Return the reply with the mark. `edits`: tool call id -> arguments that a person has written."""
    return reply.model_copy(update={"response_metadata": {**reply.response_metadata, _MARK: dict(edits)}})


def edited_in(reply: AIMessage) -> Mapping[str, dict[str, Any]]:
    """Return tool call id -> arguments of the calls that a person has edited."""
    edits: Mapping[str, dict[str, Any]] = reply.response_metadata.get(_MARK, {})
    return edits


def calls_as_run(reply: AIMessage) -> list[ToolCall]:
    """Return the calls of a reply with the arguments that ran: an edited call has those of the person."""
    edits = edited_in(reply)
    return [{**call, "args": edits.get(str(call["id"]), call["args"])} for call in reply.tool_calls]
