"""A real supervisor without a container, fed frames that a host might send and bytes that none would."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from libs.sandbox.frames import ANSWER, CHUNK, INSIDE, REQUEST, Decoder, Ending, Kind, Worker, encode
from libs.sandbox.guest import guest_tree
from libs.sandbox.messages import BlockRequest, RunRequest

__all__ = ["checked"]

_WITHIN = 20.0
"""Seconds in which it has to answer or to end."""
_ASKED = RunRequest(b"echo on", 1000, True, False, []).encode()
REQUESTS = [
    REQUEST.pack(Worker.RUN, 2.0) + _ASKED,
    REQUEST.pack(Worker.RUN, 0.01) + RunRequest(b"sleep 5", 1000, False, True, [b"A=b"]).encode(),
    REQUEST.pack(Worker.FILE, 2.0) + b'{"do": "ls", "arguments": {"path": "."}}',
    REQUEST.pack(Worker.FILE, 0.3)
    + b'{"do": "write", "arguments": {"path": "x", "size": 9, "replace": true}}',
    REQUEST.pack(Worker.PYTHON, 2.0) + BlockRequest(b"s", b"1 + 1", 1000).encode(),
    REQUEST.pack(Worker.RUN, float("nan")) + _ASKED,
    REQUEST.pack(9, 1.0) + _ASKED,
    b"",
]


def requests_from(data: bytes) -> tuple[bytes, bool]:
    """Frames of a host, as the bytes say: three for each. And whether they are spoiled."""
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
    """A check that starts a supervisor, feeds it, and sees that it answers a last request or has ended."""
    for relative, content in guest_tree().items():
        path = folder / "guest" / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    work = folder / "work"
    work.mkdir()

    def check(data: bytes) -> None:
        ours, theirs = socket.socketpair()
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(folder / "guest/main.py")],
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=subprocess.DEVNULL,
            cwd=work,
            env={"PATH": os.defpath, "HOME": str(work), "MPLCONFIGDIR": str(work)},
            start_new_session=True,
        )
        try:
            with ours, theirs:
                theirs.close()
                ours.settimeout(_WITHIN)
                _feed(ours, *requests_from(data))
            process.wait(_WITHIN)
        finally:
            process.kill()
            process.wait()

    yield check


def _feed(link: socket.socket, data: bytes, spoiled: bool) -> None:
    last = encode(0xFFFF, Kind.OPEN, REQUEST.pack(Worker.RUN, 5.0) + _ASKED)
    decoder = Decoder()
    try:
        link.sendall(data + last)
        if spoiled:  # of a length, perhaps: then it waits for more, and ends with its input
            link.shutdown(socket.SHUT_WR)
        while come := link.recv(CHUNK):
            for stream, kind, payload, _ in decoder.feed(come):
                if kind == Kind.END:
                    ending, _ = ANSWER.unpack_from(payload)
                    assert ending <= Ending.WAITED
                    if stream == 0xFFFF:
                        return
    except (BrokenPipeError, ConnectionResetError):
        return  # it refused what it was fed, as it should
    except struct.error as error:
        raise AssertionError("an END without an answer") from error
