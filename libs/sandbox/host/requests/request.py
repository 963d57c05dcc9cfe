"""State of one request to the supervisor, and its answer."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from libs.redaction import Redact
from libs.sandbox.host.requests.redacted_results import LiveOutput
from libs.sandbox.protocol import OnOutput
from libs.sandbox.wire.frames import CHUNK, EARLY, MOST_CONTENT, Ending, Fd

__all__ = ["Answer", "Call", "decoded"]

logger = logging.getLogger(__name__)

_AT_ONCE = 1_000_000
"""Bytes of an answer that are decoded on the event loop. A larger answer is decoded in a thread."""

Result = TypeVar("Result")


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
        self.counts = True
        """Whether the request counts as use of the sandbox."""
        self.on_output = on_output
        self.live = LiveOutput(on_output, redact) if on_output and redact else None

    @property
    def begun(self) -> bool:
        """Whether the request may have begun. It has not if the answer says so."""
        if not self.future.done() or self.future.exception():
            return True
        return self.future.result().ending not in (Ending.BUSY, Ending.WAITED, Ending.REMOVED)

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

    def show(self, data: bytes, fd: int) -> None:
        """Show live output. No data: output is left out here."""
        if self.on_output:
            with self._showing():
                if self.live and data:
                    self.live.feed(fd, data)
                elif self.live:
                    self.live.gap(fd)
                elif data:
                    self.on_output(data)

    def show_rest(self, *, cut: bool) -> None:
        """Show held-back output. `cut`: the program was killed or goes on, so a secret may be incomplete."""
        if self.on_output and self.live:
            with self._showing():
                self.live.flush([fd for fd, tail in self.tail.items() if cut or tail])

    @contextmanager
    def _showing(self) -> Iterator[None]:
        try:
            yield
        except Exception:  # a failing callback must not stop the other requests of the channel
            logger.exception("showing live output failed; the command goes on without")
            self.on_output = None

    def received(self, answer: Answer) -> int:
        """Return the received bytes, content and answer together."""
        return sum(map(len, self.data.values())) + len(answer.body)


async def decoded(call: Call, answer: Answer, make: Callable[[], Result]) -> Result:
    """Make the result of an answer. A large answer is decoded in a thread."""
    return await asyncio.to_thread(make) if call.received(answer) > _AT_ONCE else make()
