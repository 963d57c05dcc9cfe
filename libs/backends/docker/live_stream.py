"""Sends a command's live output to LangGraph's custom stream."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from itertools import count

from langgraph.config import get_stream_writer

__all__ = ["live_output"]


@contextmanager
def live_output(tool_call_id: str | None) -> Iterator[Callable[[bytes], None] | None]:
    """Provide a callback that sends `{"type": "output", "tool_call_id", "text", "part"}` events.

    `part` counts the events of the call from 0: a client that missed an event can tell. None without a run.

    The sandbox calls the callback in another thread, so each event is sent in a copy of the current context,
    where LangGraph finds the run. A character that is split between two chunks waits until it is complete.
    """
    try:
        write = get_stream_writer()
    except (RuntimeError, KeyError):  # not in a run: a test, a script
        yield None
        return
    context = copy_context()
    parts = count()
    decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def show(data: bytes) -> None:
        if text := decoder.decode(data):
            context.run(
                write, {"type": "output", "tool_call_id": tool_call_id, "text": text, "part": next(parts)}
            )

    yield show
