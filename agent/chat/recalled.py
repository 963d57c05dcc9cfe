"""What was said in a thread, for a person who comes back to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from langchain_core.messages import AIMessage, AnyMessage

from libs.middleware.told import by_person

__all__ = ["last_answer", "tasks"]


def tasks(messages: Sequence[AnyMessage]) -> Iterator[str]:
    """What people have asked for, in order."""
    return (message.text for message in messages if by_person(message))


def last_answer(messages: Sequence[AnyMessage]) -> str:
    """The last words of the model; empty where it has said none."""
    said = (message.text for message in reversed(messages) if isinstance(message, AIMessage))
    return next((text for text in said if text.strip()), "")
