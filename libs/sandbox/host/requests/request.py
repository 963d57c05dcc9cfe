"""State of one request to the supervisor, and its answer."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass

from libs.redaction import Redact
from libs.sandbox.host.requests.redacted_results import LiveOutput
from libs.sandbox.protocol import OnOutput
from libs.sandbox.wire.frames import CHUNK, EARLY, MOST_CONTENT, Fd

__all__ = ["Answer", "Call"]


@dataclass(frozen=True, slots=True)
class Answer:
    """The content of an END frame."""

    ending: int
    """One of `libs.sandbox.wire.frames.Ending`."""
    body: bytes
    """The worker's report. Empty if no worker could answer."""
    left_running: bool = False
    """Whether processes of a command go on in the background."""


class Call:
    """One running request, and the data received so far."""

    def __init__(
        self, stream: int, content: bytes, on_output: OnOutput | None, redact: Redact | None = None
    ) -> None:
        self.stream = stream
        self.sent_at = time.monotonic()
        self.redact = redact
        """Removes secrets from the received data."""
        self.future: Future[Answer] = Future()
        """The answer, or SandboxDied if the sandbox ended first."""
        self.data = {Fd.OUT: bytearray(), Fd.ERR: bytearray()}
        """Received content, in order."""
        self.tail = {Fd.OUT: bytearray(), Fd.ERR: bytearray()}
        """Content after `data`, which may follow a gap."""
        self.room = MOST_CONTENT + CHUNK
        """Bytes that may still come for `data` and `tail`."""
        self.unsent = memoryview(content)
        self.credit = EARLY
        """Bytes of input that may be sent now."""
        self.sending = threading.Lock()
        self.sent: Future[None] | None = None
        """Done when `unsent` is empty, if somebody waits for that."""
        self.sandbox = 0
        """The number of the sandbox that has the request: see `SandboxLife`."""
        self.on_output = on_output
        self.live = LiveOutput(on_output, redact) if on_output and redact else None

    def piece(self) -> bytes:
        """Take the next piece of input that may be sent. Empty if there is none."""
        size = min(self.credit, CHUNK, len(self.unsent))
        piece, self.unsent = bytes(self.unsent[:size]), self.unsent[size:]
        self.credit -= size
        return piece

    def all_sent(self) -> None:
        """Wake up who waits until the input is sent."""
        sent, self.sent = self.sent, None
        if sent:
            sent.set_result(None)

    def received(self, answer: Answer) -> int:
        """Return the received bytes, content and answer together."""
        return sum(map(len, self.data.values())) + len(answer.body)
