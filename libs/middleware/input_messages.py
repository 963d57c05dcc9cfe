"""Refuse a message that cannot be read, before the message is saved in the thread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from langchain_core.messages import convert_to_messages
from langgraph.types import Command
from pydantic import ValidationError

__all__ = ["EXAMPLE", "UnreadableMessage", "check_messages"]

EXAMPLE = 'Send {"messages": [{"role": "user", "content": "Summarise /data/sales.csv"}]}.'
"""An input for an error message."""

_MAX_REASON_CHARS = 500


class UnreadableMessage(ValueError):
    """A message of an input has an unknown role, or lacks a field."""


def check_messages(given: Any) -> None:
    """Check the messages of an input, or of the update of a command.

    LangGraph saves an input before the input's messages are read. The state of the thread could then not be
    read, although its other messages are good.

    Raises:
        UnreadableMessage: a message cannot be read.
    """
    for key, messages in _pairs(given.update if isinstance(given, Command) else given):
        if key != "messages" or messages is None:
            continue
        for index, message in enumerate(messages if isinstance(messages, list) else [messages]):
            try:
                convert_to_messages([message])
            except (ValueError, TypeError, KeyError, AttributeError, NotImplementedError) as error:
                reason = _reason(error)[:_MAX_REASON_CHARS]
                raise UnreadableMessage(f"messages[{index}] cannot be read: {reason}. {EXAMPLE}") from error


def _pairs(values: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(values, Mapping):
        return values.items()
    # A client may send an update as a list of pairs.
    pairs = values if isinstance(values, list | tuple) else ()
    return [(pair[0], pair[1]) for pair in pairs if isinstance(pair, list | tuple) and len(pair) == 2]


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        return f"{first['loc'][0]}: {first['msg']}" if first["loc"] else first["msg"]
    if isinstance(error, ValueError | NotImplementedError):
        return str(error).partition("\nFor troubleshooting")[0].rstrip(".")
    return f"{type(error).__name__}: {error}"
