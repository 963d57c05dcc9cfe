"""The frames of the stdio protocol between host and supervisor, used by both ends (standard library only).

A frame is a 10-byte header and a payload: payload length (u32), stream (u32), kind (u8), fd (u8),
all big-endian. A stream is one request and everything that belongs to it; many run at once.

One request, from the host's side::

    OPEN    REQUEST + what is asked (messages.py)   begins the stream
    DATA*                                           input: EARLY bytes at once, more as CREDIT allows
    CANCEL                                          ends it early
  answered by
    CREDIT* u32                                     bytes of input that may be sent on top
    DATA*                                           content: output as it comes, or a file's bytes
    LIVE*                                           output to show but not to keep (the kept part is cut)
    TAIL*                                           the end of an output that was cut in the middle
    END     ANSWER + how it ended (messages.py)     ends the stream; nothing follows on it

Stream 0 belongs to the supervisor itself: its END says that it is ready.

A stream whose number has the bit INSIDE set begins inside: it is a connection that a program has made to the
proxy (`outlet.py`). Both ends may send alike::

    OPEN                                            from inside: somebody has connected
    DATA*                                           bytes, at first at most NET_WINDOW, then as CREDIT allows
    CREDIT* u32                                     bytes that may be sent on top
    END                                             no DATA follows from this end; the second ends the stream
    CANCEL                                          ends it at once, both ways

What runs inside imports as little as it can: of a sandbox's start, every module that imports `enum`,
`typing` or `re` costs as much as the interpreter itself. What it is started with makes do with `posix`, which
is what most of `os` consists of; there, `environ` is of bytes.
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

__all__ = [
    "ANSWER",
    "CHUNK",
    "EARLY",
    "HEADER",
    "INSIDE",
    "MAX_PAYLOAD",
    "MOST_CONTENT",
    "NET_WINDOW",
    "REQUEST",
    "WINDOW",
    "Decoder",
    "Ending",
    "Fd",
    "Frame",
    "Kind",
    "ProtocolError",
    "Worker",
    "encode",
]

HEADER: Final = struct.Struct("!IIBB")
REQUEST: Final = struct.Struct("!Bd")
"""How an OPEN begins: the kind of Worker that serves it, and its time-out in seconds."""
ANSWER: Final = struct.Struct("!BB")
"""How an END begins: an Ending, and whether the worker that sends it is free again."""
MAX_PAYLOAD: Final = 32 * 1024 * 1024
"""Largest payload in bytes. An OPEN carries a whole command; contents are cut into CHUNKs."""
MOST_CONTENT: Final = 512 * 1024 * 1024
"""Bytes of content that one request returns: the host holds them in memory."""
CHUNK: Final = 256 * 1024
"""Bytes of content in one DATA frame."""
WINDOW: Final = 1024 * 1024
"""Bytes of input a stream may have under way before the receiver grants more."""
EARLY: Final = 64 * 1024
"""Bytes of input that follow an OPEN at once: a small file is there with the request for it."""
INSIDE: Final = 0x8000_0000
"""The bit in the number of a stream that begins inside."""
NET_WINDOW: Final = 256 * 1024
"""Bytes of a connection to the proxy that may be under way in each direction."""


class Kind:
    """What a frame is for."""

    OPEN: Final = 1
    DATA: Final = 2
    LIVE: Final = 3
    TAIL: Final = 4
    CREDIT: Final = 5
    CANCEL: Final = 6
    END: Final = 7
    IDLE: Final = 8
    """Between supervisor and worker only: the worker may take another request."""


class Fd:
    """Which output of a command a DATA, LIVE or TAIL frame continues."""

    OUT: Final = 1
    ERR: Final = 2


class Worker:
    """The kinds of worker a request may be for."""

    RUN: Final = 1
    FILE: Final = 2
    PYTHON: Final = 3


class Ending:
    """How a request ended."""

    DONE: Final = 0
    TIMEOUT: Final = 1
    CANCELLED: Final = 2
    LOST: Final = 3
    """What ran ended the worker that served it."""
    BUSY: Final = 4
    """No process could be started for it."""
    WAITED: Final = 5
    """Its time was up before its turn came."""


Frame = tuple[int, int, bytes, int]
"""Stream, kind, payload, fd."""


class ProtocolError(Exception):
    """The other end sent something that is no frame. The connection cannot go on."""


def encode(stream: int, kind: int, payload: bytes = b"", fd: int = Fd.OUT) -> bytes:
    """The bytes of one frame.

    Raises:
        ValueError: the payload is larger than MAX_PAYLOAD.
    """
    if len(payload) > MAX_PAYLOAD:
        raise ValueError(f"a frame holds at most {MAX_PAYLOAD} bytes, not {len(payload)}")
    return HEADER.pack(len(payload), stream, kind, fd) + payload


class Decoder:
    """Cuts a byte stream into frames, however it is split on the way."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """Add received bytes; return the frames that are complete now.

        Raises:
            ProtocolError: a header names an unknown kind or fd, or a payload over MAX_PAYLOAD.
        """
        buffer = self._buffer
        buffer += data
        frames: list[Frame] = []
        offset = 0
        available = len(buffer)
        while available - offset >= HEADER.size:
            length, stream, kind, fd = HEADER.unpack_from(buffer, offset)
            if not Kind.OPEN <= kind <= Kind.IDLE or not Fd.OUT <= fd <= Fd.ERR or length > MAX_PAYLOAD:
                raise ProtocolError(f"not a frame: length {length}, kind {kind}, fd {fd}")
            end = offset + HEADER.size + length
            if end > available:
                break
            frames.append((stream, kind, bytes(buffer[offset + HEADER.size : end]), fd))
            offset = end
        if offset:
            del buffer[:offset]
        return frames
