"""Answer the tool calls of a reply that a checkpoint cannot hold as the model wrote them.

LangGraph writes `?` for half of a surrogate pair, so another call than the model's would be asked about and
run. An integer of over 64 bits and deep nesting would end the run with an error of the serializer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage

from libs.middleware.open_calls import not_run

__all__ = ["kept_reply"]

_HALF: Final = re.compile("[\ud800-\udfff]")
_DEEPEST: Final = 150
"""Most nested objects and arrays of arguments."""
_TOLD: Final = (
    "This {name} call was not run: its arguments hold half of a surrogate pair, an integer of over 64 bits "
    "or over 150 nested objects and arrays, which cannot be kept. Send the call again: write an escape "
    "sequence for such a character, and such a number as text."
)


def kept_reply(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the messages of a reply, with an answer to each call that cannot be kept as it is.

    What cannot be kept is replaced in these calls: halves by U+FFFD, integers by text, deep values by null.
    """
    kept: list[BaseMessage] = []
    for message in messages:
        kept.append(message)
        if not isinstance(message, AIMessage):
            continue
        calls = [_storable(call) for call in message.tool_calls]
        changed = [call for call, given in zip(calls, message.tool_calls, strict=True) if call != given]
        if changed:
            # Some providers repeat the arguments in the content.
            update = {"tool_calls": calls, "content": _storable(message.content)}
            kept[-1] = message.model_copy(update=update)
            kept += [not_run(call["name"], call["id"], _TOLD.format(name=call["name"])) for call in changed]
    return kept


def _storable(value: Any, depth: int = 0) -> Any:
    if isinstance(value, str):
        return _HALF.sub("\ufffd", value)
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return f"{value:#x}"  # without the limit of decimal digits
    if isinstance(value, dict | list):
        if depth > _DEEPEST:
            return None
        if isinstance(value, list):
            return [_storable(each, depth + 1) for each in value]
        return {_storable(key): _storable(each, depth + 1) for key, each in value.items()}
    return value
