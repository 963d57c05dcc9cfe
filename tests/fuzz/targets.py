"""The fuzz targets. Each takes bytes and raises only if a promise is broken."""

from __future__ import annotations

import contextlib
import queue
import struct
import sys
import threading
from collections.abc import Callable

from libs.sandbox.errors import SandboxBusy, SandboxDied
from libs.sandbox.guest.workers.children import Job
from libs.sandbox.host.channel import Channel
from libs.sandbox.host.requests.file_results import file_result
from libs.sandbox.host.requests.request import Answer, Call
from libs.sandbox.host.requests.results import block_result, run_result
from libs.sandbox.limits import SandboxLimits
from libs.sandbox.protocol import FileFailed
from libs.sandbox.wire.frames import (
    ANSWER,
    HEADER,
    MAX_PAYLOAD,
    REQUEST,
    Decoder,
    Ending,
    Fd,
    Frame,
    Kind,
    ProtocolError,
    Worker,
    encode,
)
from libs.sandbox.wire.messages import BlockRequest, RunReport, RunRequest

__all__ = ["READY", "TARGETS", "Wire", "frames_from"]

READY = encode(0, Kind.END, ANSWER.pack(Ending.DONE, True))
_WITHIN = 20.0
"""Seconds until every call must be answered; calls take far less."""


class Wire:
    """A transport whose other end is the test."""

    def __init__(self) -> None:
        self.sent = bytearray()
        self._coming: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._closed = False

    def say(self, data: bytes) -> None:
        if data:
            self._coming.put(data)

    def end(self) -> None:
        self._coming.put(b"")

    def receive(self) -> bytes:
        return self._coming.get()

    def send_now(self, data: bytes) -> int:
        self.sent += data
        return len(data)

    def send(self, data: bytes) -> None:
        self.send_now(data)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.end()

    def epitaph(self) -> str:
        return "the fuzzer ended it"


def frames_from(data: bytes) -> bytes:
    """Make bytes that are mostly frames: a header from 4 bytes of `data`, a payload from the next ones."""
    made = bytearray()
    offset = 0
    while offset + 4 <= len(data):
        stream, kind, fd, length = data[offset : offset + 4]
        payload = data[offset + 4 : offset + 4 + length % 64]
        offset += 4 + len(payload)
        if kind & 0x80:  # half of the frames may have a wrong length
            made += HEADER.pack(length << (kind % 24), stream % 6, kind % 10, fd % 4) + payload
        else:
            made += encode(stream % 6, kind % 8 + 1, payload, fd % 2 + 1)
    return bytes(made) + data[offset:]


def decoder(data: bytes) -> None:
    """Every split gives the same frames or the same error. The decoder keeps no more than its input."""
    data = frames_from(data)
    outcomes = []
    for size in (max(1, len(data)), 1, 7):
        seen: list[Frame] = []
        each = Decoder()
        refused = False
        try:
            for start in range(0, len(data), size):
                seen += each.feed(data[start : start + size])
        except ProtocolError:
            refused = True
        assert len(each._buffer) <= len(data)
        outcomes.append((refused, seen))
    whole, *split = outcomes
    for refused, seen in split:
        # Without a split, frames before malformed bytes are not returned.
        assert refused == whole[0]
        assert refused or seen == whole[1]
    for stream, kind, payload, fd in whole[1]:
        assert Kind.OPEN <= kind <= Kind.IDLE
        assert fd in (Fd.OUT, Fd.ERR)
        assert len(payload) <= MAX_PAYLOAD
        assert stream < 2**32


def channel(data: bytes) -> None:
    """The host's end: every call gets a result or a typed error, and the reading thread raises nothing."""
    escaped: list[object] = []
    before, threading.excepthook = threading.excepthook, escaped.append
    try:
        wire = Wire()
        host = Channel(wire)
        wire.say(READY)
        host.came_up.result(_WITHIN)
        calls = [host.request(b"ask", content=b"content") for _ in range(4)]
        for call in calls[2:]:
            host.cancel(call)
        cut = data[0] + 1 if data else 1
        come = frames_from(data[1:])
        for start in range(0, len(come), cut):
            wire.say(come[start : start + cut])
        wire.end()
        for call in calls:
            with contextlib.suppress(SandboxDied):
                _results(call, call.future.result(_WITHIN))
            kept = sum(map(len, (*call.data.values(), *call.tail.values())))
            assert kept <= len(come)
        host.close()
        assert not host._reader.is_alive()
        assert not host._calls
    finally:
        threading.excepthook = before
    assert escaped == []


def _results(call: Call, answer: Answer) -> None:
    limits = SandboxLimits(output_chars=1000)
    for make in (run_result, block_result):
        with contextlib.suppress(SandboxBusy):
            made = make(limits, call, answer, 1.0)
            assert isinstance(made.output, str)
    with contextlib.suppress(SandboxBusy, FileFailed):
        file_result(call, answer, 1.0)


def messages(data: bytes) -> None:
    """Requests and reports: struct.error, or a message that is the same after encoding again."""
    with contextlib.suppress(struct.error):
        run = RunRequest.decode(data)
        again = RunRequest.decode(run.encode())
        assert vars(again) == vars(run)
    with contextlib.suppress(struct.error):
        block = BlockRequest.decode(data)
        if len(block.session) <= len(data):
            assert vars(BlockRequest.decode(block.encode())) == vars(block)
    with contextlib.suppress(struct.error):
        report = RunReport.decode(data)
        assert len(report.outputs) <= 255
        RunReport.decode(report.encode())
    for kind in (Worker.RUN, Worker.FILE, Worker.PYTHON):
        with contextlib.suppress(struct.error):
            job = Job(1, REQUEST.pack(kind, 1.0) + data)
            assert job.session is None or len(job.session) <= len(data)


TARGETS: dict[str, Callable[[bytes], None]] = {"decoder": decoder, "channel": channel, "messages": messages}

if sys.flags.optimize:
    raise SystemExit("-O removes the assertions")
