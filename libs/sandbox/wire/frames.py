"""Encodes the frames between host and supervisor, for both ends (standard library only).

A frame is a 10-byte header and a payload: payload length (u32), stream (u32), kind (u8), fd (u8),
all big-endian. A stream is one request and its frames. Many streams run at once.

One request, from the host's side::

    OPEN    REQUEST + request (messages.py)         begins the stream
    DATA*                                           input: EARLY bytes at once, more as CREDIT allows
    CANCEL                                          ends it early; after END: ends what it left running
  answered by
    CREDIT* u32                                     bytes of input that may be sent on top
    DATA*                                           content: output as it comes, or a file's bytes
    LIVE*                                           output to show but not to keep; empty: output is left out
    TAIL*                                           the end of an output that was cut in the middle
    END     ANSWER + report (messages.py)           ends the stream; nothing follows on it

Stream 0 belongs to the supervisor: its END says that the supervisor is ready. A CANCEL from the host stops
the idle interpreters until their next blocks, and renews the other idle workers and the proxy's listeners.

A stream with the bit INSIDE in its number is a connection of a program to the proxy (`proxy_port.py`). Both
ends may send::

    OPEN                                            from inside: a program has connected
    DATA*                                           bytes, at first at most NET_WINDOW, then as CREDIT allows
    CREDIT* u32                                     bytes that may be sent on top
    END                                             no DATA follows from this end; the second ends the stream
    CANCEL                                          ends it at once, both ways

Modules that run inside import as little as possible: `enum`, `typing` and `re` take as long to import as the
interpreter to start.
"""

from __future__ import annotations

import struct

__all__ = [
    "ANSWER",
    "CHUNK",
    "EARLY",
    "HEADER",
    "INSIDE",
    "MAX_PAYLOAD",
    "MOST_CONTENT",
    "NET_WINDOW",
    "PIPE",
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

HEADER = struct.Struct("!IIBB")
REQUEST = struct.Struct("!Bd")
"""Begin of an OPEN: the kind of Worker, and the time-out in seconds."""
ANSWER = struct.Struct("!BB")
"""Begin of an END: an Ending, and whether the worker is idle again."""
MAX_PAYLOAD = 32 * 1024 * 1024
"""Largest payload in bytes. An OPEN carries a whole command. Content is cut into CHUNKs."""
MOST_CONTENT = 512 * 1024 * 1024
"""Bytes of content that one request may return, because the host keeps them in memory."""
PIPE = 64 * 1024
"""Bytes that a pipe takes at once: see pipe(7)."""
CHUNK = PIPE - HEADER.size
"""Bytes of content in one DATA frame, so that the frame fits into a pipe."""
WINDOW = 1024 * 1024
"""Bytes of input that one CREDIT allows."""
EARLY = CHUNK
"""Bytes of input that follow an OPEN without a CREDIT, so that a small file needs no round trip. Not
more than one frame: the host sends an OPEN with at most one frame of input."""
INSIDE = 0x8000_0000
"""Bit in the number of a stream that begins inside."""
NET_WINDOW = 256 * 1024
"""Bytes of a proxy connection that may be sent in each direction before a CREDIT."""


class Kind:
    """Kinds of frames."""

    OPEN = 1
    DATA = 2
    LIVE = 3
    TAIL = 4
    CREDIT = 5
    CANCEL = 6
    END = 7
    IDLE = 8
    """Between supervisor and worker only: the worker is idle again."""


class Fd:
    """The output of a command that a DATA, LIVE or TAIL frame belongs to."""

    OUT = 1
    ERR = 2


class Worker:
    """Kinds of workers."""

    RUN = 1
    FILE = 2
    PYTHON = 3


class Ending:
    """How a request ended."""

    DONE = 0
    TIMEOUT = 1
    CANCELLED = 2
    LOST = 3
    """A command killed the worker."""
    BUSY = 4
    """No process could be started."""
    WAITED = 5
    """The time-out passed, or the request was cancelled, before it was begun."""
    MEMORY = 6
    """The worker was killed, and the kernel has killed a process, because the sandbox's memory is used up."""
    FAILED = 7
    """The worker ended by itself: an error of this project."""
    REMOVED = 8
    """The workspace folder was removed on the host. The request was not begun."""
    ENDED = 9
    """The time-out passed, and the interpreter of the block was ended, or ended itself."""


Frame = tuple[int, int, bytes, int]
"""Stream, kind, payload, fd."""


class ProtocolError(Exception):
    """The other end has sent an invalid frame. The connection ends."""


def encode(stream: int, kind: int, payload: bytes = b"", fd: int = Fd.OUT) -> bytes:
    """Return the bytes of one frame.

    Raises:
        ValueError: the payload is larger than MAX_PAYLOAD.
    """
    if len(payload) > MAX_PAYLOAD:
        raise ValueError(f"a frame holds at most {MAX_PAYLOAD} bytes, not {len(payload)}")
    return HEADER.pack(len(payload), stream, kind, fd) + payload


class Decoder:
    """Cuts a byte stream into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """Add received bytes; return the frames that are complete now.

        Raises:
            ProtocolError: a header names an unknown kind or fd, or a payload over MAX_PAYLOAD.
        """
        kept = self._buffer
        kept += data if kept else b""
        buffer = kept or data  # mostly whole frames, which need no copy
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
        if kept:
            del kept[:offset]
        else:
            kept += data[offset:]
        return frames
