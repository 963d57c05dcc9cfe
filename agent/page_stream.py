"""What the page reads of a run besides LangGraph's own events: what is printed and written, as it comes.

LangGraph's server streams to the page by version 3 of `astream_events`. That leaves the custom stream out
unless a transformer asks for it. Of the messages stream the server passes on only what models say that the
graph asks by `ainvoke`: not the pieces of one that is streamed, as the code-block agent does it. The server
takes `stream_transformers` from the module of a graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessageChunk
from langgraph.stream._types import ProtocolEvent, StreamTransformer
from langgraph.stream.stream_channel import StreamChannel
from langgraph.stream.transformers import CustomTransformer

__all__ = ["stream_transformers"]


class _Pieces(StreamTransformer):
    """Pieces of replies on the channel `custom:text`, each `{"type": "text", "id", "text"}`."""

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
    """The transformers that each streamed run has besides LangGraph's own."""
    return [CustomTransformer, _Pieces]
