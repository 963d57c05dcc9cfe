"""A command's output as it comes, on LangGraph's custom stream."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context

from langgraph.config import get_stream_writer

__all__ = ["live_output"]


@contextmanager
def live_output(tool_call_id: str | None) -> Iterator[Callable[[bytes], None] | None]:
    """A callback that sends `{"type": "output", "tool_call_id", "text"}` events; None outside a graph's run.

    The sandbox calls it in a thread of its own, so each event is sent in a copy of the context that this was
    called in: LangGraph looks there for what the event belongs to. A character that is cut between two
    chunks is held back until it is whole.
    """
    try:
        write = get_stream_writer()
    except (RuntimeError, KeyError):  # nobody's run: a test, a script
        yield None
        return
    context = copy_context()
    decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def show(data: bytes) -> None:
        if text := decoder.decode(data):
            context.run(write, {"type": "output", "tool_call_id": tool_call_id, "text": text})

    yield show
