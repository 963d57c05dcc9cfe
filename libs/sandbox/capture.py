"""Catching the output of what a worker has started (standard library only)."""

from __future__ import annotations

import fcntl
import posix as os
import struct
import time

from libs.sandbox.frames import Kind, encode
from libs.sandbox.messages import OutputReport
from libs.sandbox.output import Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Final

__all__ = ["GATHER", "Captured", "last_frames", "read_some", "read_waiting"]

GATHER: Final = 0.002
"""Seconds that output waits for the end of what prints it, so that both travel in one write."""
_READ: Final = 64 * 1024
# On every machine that an image is built for; the module `termios` costs a millisecond of the first command.
_FIONREAD: Final = 0x541B
_LIVE_BYTES: Final = 64 * 1024
_LIVE_SECONDS: Final = 0.05
"""At most so many bytes in so many seconds are shown live once an output is over its first half."""


class Captured:
    """One output descriptor of what runs."""

    def __init__(self, fd: int, limit: int, spill_path: str) -> None:
        self.fd = fd
        self.output = Output(limit, spill_path)
        self.head: list[bytes] = []
        self.live: list[bytes] = []
        self._live_since = 0.0
        self._live_sent = 0

    def add(self, data: bytes, live: bool) -> None:
        """Take bytes that were printed; `live` where somebody looks at them as they come."""
        room = self.output.add(data)
        if room:
            self.head.append(data[:room])
        if live and room < len(data):
            now = time.monotonic()
            if now - self._live_since >= _LIVE_SECONDS:
                self._live_since, self._live_sent = now, 0
            shown = data[room:][: _LIVE_BYTES - self._live_sent]
            self._live_sent += len(shown)
            self.live.append(shown)

    def report(self) -> OutputReport:
        """What is to be said about it in the end."""
        output = self.output
        spill_path = (output.spill_path or "").encode()
        return OutputReport(output.total, output.chars, output.spilled, spill_path)

    def frames(self, stream: int) -> bytes:
        """What is to be sent now."""
        sent = b""
        for kind, pieces in ((Kind.DATA, self.head), (Kind.LIVE, self.live)):
            data = b"".join(pieces)
            pieces.clear()
            if data:
                sent += encode(stream, kind, data, self.fd)
        return sent


def last_frames(
    stream: int, outputs: Mapping[int, Captured], pipes: Mapping[int, tuple[int, int]]
) -> tuple[bytes, list[OutputReport]]:
    """What is left to be sent and said when the end has come.

    What was printed lies in the pipes. Background children may print more later, which is not part of the
    result: so exactly what is there now is read.
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
    """What a non-blocking pipe holds, 64 KB at most; empty where it holds nothing."""
    try:
        return os.read(descriptor, _READ)
    except BlockingIOError:
        return b""


def read_waiting(descriptor: int) -> Iterator[bytes]:
    """What a pipe holds now, in pieces; not what comes meanwhile, which may never end."""
    left = _readable(descriptor)
    while left > 0 and (data := os.read(descriptor, min(left, _READ))):
        left -= len(data)
        yield data


def _readable(descriptor: int) -> int:
    """Bytes that lie in a pipe. See ioctl_tty(2), FIONREAD."""
    answer = fcntl.ioctl(descriptor, _FIONREAD, struct.pack("i", 0))
    count: int = struct.unpack("i", answer)[0]
    return count
