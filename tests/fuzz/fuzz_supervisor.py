"""Fuzz a real supervisor without a container, with valid and with malformed frames.

The supervisor must survive valid frames and answer every request. Malformed frames may end it, because no
process inside can send them.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from libs.sandbox.image_contents import write_guest
from libs.sandbox.wire.frames import ANSWER, CHUNK, INSIDE, REQUEST, Decoder, Ending, Kind, Worker, encode
from libs.sandbox.wire.messages import BlockRequest, RunRequest

__all__ = ["checked"]

_WITHIN = 20.0
"""Seconds until the supervisor must have answered or ended."""
_ASKED = RunRequest(b"echo on", 1000, True, False, []).encode()
_MOST_OPEN = 32
_LAST_STREAM = 0xFFFF
_LAST = encode(_LAST_STREAM, Kind.OPEN, REQUEST.pack(Worker.RUN, 5.0) + _ASKED)
ASKED = [
    REQUEST.pack(Worker.RUN, 2.0) + _ASKED,
    REQUEST.pack(Worker.RUN, 0.01) + RunRequest(b"sleep 5", 1000, False, True, [b"A=b"]).encode(),
    REQUEST.pack(Worker.FILE, 2.0) + b'{"do": "ls", "arguments": {"path": "."}}',
    REQUEST.pack(Worker.FILE, 0.3)
    + b'{"do": "write", "arguments": {"path": "x", "size": 9, "replace": true}}',
    REQUEST.pack(Worker.PYTHON, 2.0) + BlockRequest(b"s", b"1 + 1", 1000, continues=False).encode(),
]
"""Valid requests of a host."""
REQUESTS = [*ASKED, REQUEST.pack(Worker.RUN, float("nan")) + _ASKED, REQUEST.pack(9, 1.0) + _ASKED, b""]


def conversation_from(data: bytes) -> tuple[bytes, set[int]]:
    """Make valid frames of a host from the bytes; return them and the streams that they open."""
    made = b""
    opened: list[int] = []
    for what, stream, length in zip(data[::3], data[1::3], data[2::3], strict=False):
        kind = (Kind.OPEN, Kind.OPEN, Kind.DATA, Kind.CANCEL, Kind.CREDIT, Kind.END)[what % 6]
        if kind == Kind.OPEN and len(opened) < _MOST_OPEN:
            opened.append(len(opened) + 1)  # stream 0 belongs to the supervisor
            made += encode(opened[-1], kind, ASKED[what // 6 % len(ASKED)])
        elif kind in (Kind.DATA, Kind.CANCEL) and opened and not stream & 0x80:
            made += encode(opened[stream % len(opened)], kind, data[:length] if kind == Kind.DATA else b"")
        elif kind != Kind.OPEN:  # for a connection that was opened inside and has ended
            payload = {Kind.DATA: data[:length], Kind.CREDIT: length.to_bytes(4, "big")}.get(kind, b"")
            made += encode(stream | INSIDE, kind, payload)
    return made, set(opened)


def requests_from(data: bytes) -> tuple[bytes, bool]:
    """Make frames in any order, one from three bytes; return them and whether one is malformed."""
    made = b""
    spoiled = False
    for what, stream, spoil in zip(data[::3], data[1::3], data[2::3], strict=False):
        kind = (Kind.OPEN, Kind.OPEN, Kind.DATA, Kind.CANCEL, Kind.CREDIT, Kind.END, Kind.IDLE, Kind.LIVE)[
            what % 8
        ]
        payload = REQUESTS[what // 8 % len(REQUESTS)] if kind == Kind.OPEN else data[: what // 8]
        frame = bytearray(encode(stream % 8 | (INSIDE if stream & 0x40 else 0), kind, payload))
        if spoil >= 0xE0:
            frame[spoil % len(frame)] ^= what | 1
            spoiled = True
        made += frame
    return made, spoiled


@contextmanager
def checked(folder: Path) -> Iterator[Callable[[bytes], None]]:
    """Make a check with two supervisors: the first must survive and answer; the second must answer or end."""
    program = write_guest(folder / "guest")
    work = folder / "work"
    work.mkdir()

    @contextmanager
    def started() -> Iterator[tuple[socket.socket, subprocess.Popen[bytes]]]:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(program)],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.DEVNULL,
                cwd=work,
                env={"PATH": os.defpath, "HOME": str(work), "MPLCONFIGDIR": str(work)},
                start_new_session=True,
            )
            theirs.close()
            ours.settimeout(_WITHIN)
            try:
                yield ours, process
            finally:
                process.kill()
                process.wait()

    def check(data: bytes) -> None:
        made, opened = conversation_from(data)
        with started() as (link, process):
            link.sendall(made + _LAST)
            unanswered = _unanswered(link, opened | {_LAST_STREAM})
            assert not unanswered, f"never answered: {sorted(unanswered)}"
            assert process.poll() is None, "valid frames ended the supervisor"
            link.shutdown(socket.SHUT_WR)
            assert process.wait(_WITHIN) == 0
        made, spoiled = requests_from(data)
        with started() as (link, process):
            try:
                link.sendall(made + _LAST)
                if spoiled:  # a wrong length makes it wait for more input
                    link.shutdown(socket.SHUT_WR)
                _unanswered(link, {_LAST_STREAM})
                link.shutdown(socket.SHUT_WR)
            except OSError as error:  # the supervisor has ended
                if isinstance(error, TimeoutError):
                    raise
            process.wait(_WITHIN)

    yield check


def _unanswered(link: socket.socket, streams: set[int]) -> set[int]:
    """Read until each stream has an END or the connection ends; return streams without END."""
    left = set(streams)
    decoder = Decoder()
    try:
        while left and (come := link.recv(CHUNK)):
            for stream, kind, payload, _ in decoder.feed(come):
                if kind == Kind.END:
                    ending, _ = ANSWER.unpack_from(payload)
                    assert ending <= Ending.ENDED
                    left.discard(stream)
    except struct.error as error:
        raise AssertionError("an END without an answer") from error
    return left
