"""One request under way, as the host sees it, and how it ends."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass

from libs.sandbox.frames import CHUNK, MOST_CONTENT, Fd
from libs.sandbox.protocol import OnOutput
from libs.sandbox.redact import LiveOutput, Redact

__all__ = ["Answer", "Call"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request's END says."""

    ending: int
    """One of `libs.sandbox.frames.Ending`."""
    body: bytes
    """What the worker adds; empty where no worker could answer."""


class Call:
    """One request under way, and what has come back so far."""

    def __init__(
        self, stream: int, content: bytes, on_output: OnOutput | None, redact: Redact | None = None
    ) -> None:
        self.stream = stream
        self.redact = redact
        """Takes secrets out of what has come back, for whoever reads it."""
        self.future: Future[Answer] = Future()
        """SandboxDied where the sandbox ended first."""
        self.data = {Fd.OUT: bytearray(), Fd.ERR: bytearray()}
        """Content, in the order it came."""
        self.tail = {Fd.OUT: bytearray(), Fd.ERR: bytearray()}
        """What follows `data`: directly, or after a part that was left out."""
        self.room = MOST_CONTENT + CHUNK
        """Bytes of both that may still come."""
        self.unsent = memoryview(content)
        self.on_output = on_output
        self.live = LiveOutput(on_output, redact) if on_output and redact else None

    def received(self, answer: Answer) -> int:
        """Bytes of content that have come, and of the answer."""
        return sum(map(len, self.data.values())) + len(answer.body)
