"""Carries frames between a worker and the supervisor, over two pipes (standard library only)."""

from __future__ import annotations

import os
import select

from libs.sandbox.wire.frames import PIPE, Decoder, Frame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Gone", "Link", "readable", "write_all"]


class Gone(Exception):
    """The supervisor has closed its end during a request. The worker must give up the request."""


class Link:
    """The worker's end. Reading and writing block."""

    def __init__(self, reader: int, writer: int) -> None:
        self.reader = reader
        """Hangs up when the supervisor is gone or dismisses this worker."""
        self._writer = writer
        self._ahead: list[Frame] = []
        """Frames that are read but not yet yielded."""

    def waiting(self) -> bool:
        """Whether a frame waits, or the supervisor is gone."""
        return bool(self._ahead) or readable(self.reader)

    def wait(self, seconds: float) -> None:
        """Wait until a frame comes, the supervisor is gone, or `seconds` are over."""
        readable(self.reader, seconds)

    def frames(self) -> Iterator[Frame]:
        """Yield the supervisor's frames until it closes its end."""
        decoder = Decoder()
        while data := os.read(self.reader, PIPE):
            self._ahead = list(decoder.feed(data))
            while self._ahead:
                yield self._ahead.pop(0)

    def send(self, data: bytes) -> None:
        """Send all bytes. Raises BrokenPipeError if the supervisor is gone."""
        write_all(self._writer, data)


def readable(descriptor: int, seconds: float = 0.0) -> bool:
    """Wait until a descriptor can be read or has hung up, at most for some seconds. Return whether it can."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes to a blocking descriptor."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
