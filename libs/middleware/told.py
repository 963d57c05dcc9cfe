"""What the program says to a model: a user's message that no user wrote, and that says so to who shows it.

`"said_by": "loop"` stands under `response_metadata`, which clients of the server are sent and no model is.
"""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage

__all__ = ["by_person", "told"]


def told(said: str, **marks: Any) -> HumanMessage:
    """The message; `marks` stand beside `said_by`."""
    return HumanMessage(said, response_metadata={"said_by": "loop", **marks})


def by_person(message: AnyMessage) -> bool:
    """Whether a person has said it: not `told`, nor the summary of a conversation, which LangChain marks."""
    return (
        isinstance(message, HumanMessage)
        and "said_by" not in message.response_metadata
        and "lc_source" not in message.additional_kwargs
    )
