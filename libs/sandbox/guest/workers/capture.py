"""Collects the output of the processes of a worker (standard library only)."""

from __future__ import annotations

import fcntl
import os
import struct
import time

from libs.sandbox.guest.workers.output_limit import Output
from libs.sandbox.wire.frames import Kind, encode
from libs.sandbox.wire.messages import OutputReport

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Captured", "last_frames", "read_some", "read_waiting"]

_READ = 64 * 1024
# Equal on all supported machines. The module `termios` takes a millisecond to import.
_FIONREAD = 0x541B
_LIVE_BYTES = 64 * 1024
_LIVE_SECONDS = 0.05
"""Limit of live output, in bytes per time, after the first half of an output."""


class Captured:
    """One output descriptor of a command."""

    def __init__(self, fd: int, limit: int, spill_path: str | None) -> None:
        self.fd = fd
        self.output = Output(limit, spill_path)
        self.head: list[bytes] = []
        self.live: list[bytes] = []
        """Live output after the first half. An empty piece stands for output that is left out."""
        self._live_since = 0.0
        self._live_sent = 0
        self._left_out = False
        """Whether output after the last piece of `live` is left out."""

    def add(self, data: bytes, live: bool) -> None:
        """Add printed bytes. `live`: whether a caller wants live output."""
        room = self.output.add(data)
        if room:
            self.head.append(data[:room])
        rest = data[room:]
        if not rest:
            return
        shown = rest[: self._live_room()] if live else b""
        if shown and self._left_out:
            self.live += [b"", shown]
        elif shown and self.live:
            self.live[-1] += shown
        elif shown:
            self.live.append(shown)
        self._live_sent += len(shown)
        self._left_out = len(shown) < len(rest)

    def _live_room(self) -> int:
        """Return how many bytes may be shown now."""
        now = time.monotonic()
        if now - self._live_since >= _LIVE_SECONDS:
            self._live_since, self._live_sent = now, 0
        return _LIVE_BYTES - self._live_sent

    def report(self) -> OutputReport:
        """Return the report of this output."""
        output = self.output
        spill_path = (output.spill_path or "").encode()
        return OutputReport(output.total, output.chars, output.spilled, spill_path)

    def frames(self, stream: int) -> bytes:
        """Return the frames to send now."""
        sent = encode(stream, Kind.DATA, b"".join(self.head), self.fd) if self.head else b""
        sent += b"".join(encode(stream, Kind.LIVE, piece, self.fd) for piece in self.live)
        self.head.clear()
        self.live.clear()
        return sent


def last_frames(
    stream: int, outputs: Mapping[int, Captured], pipes: Mapping[int, tuple[int, int]]
) -> tuple[bytes, list[OutputReport]]:
    """Return the remaining frames and the reports at the end of a command.

    The rest of the output is in the pipes. Later output of background children is not part of the result, so
    only the bytes that are in the pipes now are read.
    """
    sent = b""
    reports = []
    for fd, captured in outputs.items():
        for data in read_waiting(pipes[fd][0]):
            captured.add(data, live=False)
        sent += captured.frames(stream)
        if tail := captured.output.finish():
            sent += encode(stream, Kind.TAIL, tail, fd)
        reports.append(captured.report())
    return sent, reports


def read_some(descriptor: int) -> bytes:
    """Read up to 64 KB from a non-blocking pipe. Empty if the pipe is empty."""
    try:
        return os.read(descriptor, _READ)
    except BlockingIOError:
        return b""


def read_waiting(descriptor: int) -> Iterator[bytes]:
    """Yield the bytes that a pipe holds now, but no bytes that arrive meanwhile."""
    left: int = struct.unpack("i", fcntl.ioctl(descriptor, _FIONREAD, struct.pack("i", 0)))[0]  # ioctl_tty(2)
    while left > 0 and (data := os.read(descriptor, min(left, _READ))):
        left -= len(data)
        yield data
