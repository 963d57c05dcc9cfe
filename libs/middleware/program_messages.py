"""User messages that the program writes to a model. Their mark keeps them out of the views of people.

The mark `"said_by": "loop"` is in `response_metadata`, which goes to clients of the server and to no model.
"""

from __future__ import annotations

from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage

__all__ = ["by_person", "told"]


def told(said: str, **marks: Any) -> HumanMessage:
    """Return a marked message. `marks` are saved beside `said_by`."""
    return HumanMessage(said, response_metadata={"said_by": "loop", **marks})


def by_person(message: BaseMessage) -> bool:
    """Return whether a person wrote the message: neither `told` nor a summary, which LangChain marks."""
    return (
        isinstance(message, HumanMessage)
        and "said_by" not in message.response_metadata
        and "lc_source" not in message.additional_kwargs
    )
