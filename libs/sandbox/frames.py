"""The frames of the stdio protocol between host and supervisor, used by both ends (standard library only).

A frame is a 10-byte header and a payload: payload length (u32), stream (u32), kind (u8), fd (u8),
all big-endian. A stream is one request and everything that belongs to it; many run at once.

One request, from the host's side::

    OPEN    {"op": "run", "command": "…", …}      begins the stream
    DATA*                                         input, at most as many bytes as CREDIT allows
    CANCEL                                        ends it early
  answered by
    CREDIT* u32                                   bytes of input that may be sent on top
    DATA*                                         content: output as it comes, or a file's bytes
    LIVE*                                         output to show but not to keep (the kept part is cut)
    TAIL*                                         the end of an output that was cut in the middle
    END     {"exit_code": 0, …}                   ends the stream; nothing follows on it

Stream 0 carries the hand-shake: the host sends OPEN with the configuration, the supervisor answers END.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final, NamedTuple

__all__ = [
    "CHUNK",
    "HEADER",
    "MAX_PAYLOAD",
    "WINDOW",
    "Decoder",
    "Fd",
    "Frame",
    "Kind",
    "ProtocolError",
    "encode",
]

HEADER: Final = struct.Struct("!IIBB")
MAX_PAYLOAD: Final = 32 * 1024 * 1024
"""Largest payload in bytes. An OPEN carries a whole command; contents are cut into CHUNKs."""
CHUNK: Final = 256 * 1024
"""Bytes of content in one DATA frame."""
WINDOW: Final = 1024 * 1024
"""Bytes of input a stream may have under way before the receiver grants more."""


class Kind(IntEnum):
    """What a frame is for."""

    OPEN = 1
    DATA = 2
    LIVE = 3
    TAIL = 4
    CREDIT = 5
    CANCEL = 6
    END = 7
    IDLE = 8
    """Between supervisor and worker only: the worker may take another request."""


class Fd(IntEnum):
    """Which output of a command a DATA, LIVE or TAIL frame continues."""

    OUT = 1
    ERR = 2


class Frame(NamedTuple):
    """One decoded frame."""

    stream: int
    kind: int
    payload: bytes
    fd: int = Fd.OUT


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


_KINDS = frozenset(Kind)
_FDS = frozenset(Fd)


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
            if kind not in _KINDS or fd not in _FDS or length > MAX_PAYLOAD:
                raise ProtocolError(f"not a frame: length {length}, kind {kind}, fd {fd}")
            end = offset + HEADER.size + length
            if end > available:
                break
            frames.append(Frame(stream, kind, bytes(buffer[offset + HEADER.size : end]), fd))
            offset = end
        if offset:
            del buffer[:offset]
        return frames
