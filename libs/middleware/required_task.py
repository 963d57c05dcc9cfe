"""Refuse a run that has no task, before the model is called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.types import StateSnapshot

from libs.middleware.input_messages import EXAMPLE
from libs.middleware.unfinished import is_unfinished

__all__ = ["TaskMissing", "has_messages", "require_task"]


class TaskMissing(ValueError):
    """Neither the input of a run nor its thread has a message to answer."""

    def __init__(self) -> None:
        super().__init__(
            "The run has no task: its input has no messages, and no message of the thread waits for an "
            f"answer. {EXAMPLE} To go on with a thread that was stopped, send no input: null, in Python None."
        )


def has_messages(given: Any) -> bool:
    """Return whether an input has messages. LangGraph itself checks an input that is no mapping."""
    return not isinstance(given, Mapping) or bool(given.get("messages"))


def require_task(state: StateSnapshot | None) -> None:
    """Check that a thread can go on without a new message. None: the run has no thread.

    A thread goes on if a step or a question is pending, or if the last message is a person's, for example
    because it was written with `update_state`.

    Raises:
        TaskMissing: the thread has nothing to go on with.
    """
    messages = state.values.get("messages") if state else None
    if not (state and is_unfinished(state)) and not (messages and isinstance(messages[-1], HumanMessage)):
        raise TaskMissing
