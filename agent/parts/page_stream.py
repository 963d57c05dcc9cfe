"""Adds live output and pieces of replies to the events that LangGraph's server streams to the page.

The server uses version 3 of `astream_events`. That version includes the custom stream only on request of a
transformer, and leaves out pieces of replies that a graph streams itself, as the code-block agent does. The
server reads `stream_transformers` from the module of a graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessageChunk
from langgraph.stream import CustomTransformer, ProtocolEvent, StreamChannel, StreamTransformer

__all__ = ["stream_transformers"]


class _Pieces(StreamTransformer):
    """Sends pieces of replies on the channel `custom:text`, each `{"type": "text", "id", "text"}`."""

    required_stream_modes = ("messages",)

    def __init__(self, scope: tuple[str, ...] = ()) -> None:
        super().__init__(scope)
        self._pieces: StreamChannel[Any] = StreamChannel("text")

    def init(self) -> dict[str, Any]:
        return {"text": self._pieces}

    def process(self, event: ProtocolEvent) -> bool:
        data = event["params"]["data"]
        if event["method"] == "messages" and isinstance(data, tuple) and isinstance(data[0], AIMessageChunk):
            piece = data[0]
            if piece.text:
                self._pieces.push({"type": "text", "id": piece.id, "text": piece.text})
        return True


def stream_transformers() -> Sequence[type[StreamTransformer]]:
    """Return the additional transformers of each streamed run."""
    return [CustomTransformer, _Pieces]
