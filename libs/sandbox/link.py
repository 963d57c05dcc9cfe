"""A worker's two pipes to the supervisor (standard library only)."""

from __future__ import annotations

import posix as os
import select

from libs.sandbox.frames import CHUNK, Decoder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from libs.sandbox.frames import Frame

__all__ = ["Gone", "Link"]


class Gone(Exception):
    """The supervisor has closed its end in the middle of a request: it is to be given up."""


class Link:
    """The worker's end: requests come in, frames of answers go out. Both block."""

    def __init__(self, reader: int, writer: int) -> None:
        self.reader = reader
        """Hangs up when the supervisor is gone, or wants this worker to go."""
        self._writer = writer
        self._ahead: list[Frame] = []
        """Frames that have been read and are not taken yet."""

    def waiting(self) -> bool:
        """Whether something has come that is not taken yet, or the supervisor is gone."""
        poll = select.poll()
        poll.register(self.reader, select.POLLIN)
        return bool(self._ahead or poll.poll(0))

    def wait(self, seconds: float) -> None:
        """Wait until something has come, or the supervisor is gone; so long at most."""
        poll = select.poll()
        poll.register(self.reader, select.POLLIN)
        poll.poll(seconds * 1000)

    def frames(self) -> Iterator[Frame]:
        """Every frame the supervisor sends, until it closes its end."""
        decoder = Decoder()
        while data := os.read(self.reader, CHUNK):
            self._ahead = list(decoder.feed(data))
            while self._ahead:
                yield self._ahead.pop(0)

    def send(self, data: bytes) -> None:
        """Send all bytes. Raises BrokenPipeError where the supervisor is gone."""
        written = os.write(self._writer, data)
        if written < len(data):
            view = memoryview(data)[written:]
            while view:
                view = view[os.write(self._writer, view) :]
