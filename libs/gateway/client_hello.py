"""The first message of a TLS client, read in passing: which server it is for (RFC 8446, 4.1.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["MOST_HELLO", "ClientHello", "NoClientHello", "read_client_hello", "unrecognized_name"]

MOST_HELLO: Final = 64 * 1024
"""Bytes of a ClientHello, with the records it comes in. Those of today have up to 2 KB."""

_HANDSHAKE, _CLIENT_HELLO = 22, 1
_RECORD_HEAD, _MESSAGE_HEAD = 5, 4
_MOST_RECORD = 2**14
_SERVER_NAME = 0
_HOST_NAME = 0


class NoClientHello(ValueError):
    """Bytes that are not the beginning of TLS; the message says why not."""


@dataclass(frozen=True, slots=True)
class ClientHello:
    """What of it is looked at."""

    server_name: str | None
    """The host that is asked for, as it was sent; None where none is named."""


def unrecognized_name() -> bytes:
    """The alert that says to a client that nothing by the name that it asks for is served here."""
    return bytes([21, 3, 3, 0, 2, 2, 112])


def read_client_hello(data: bytes | bytearray) -> ClientHello | None:
    """Read the ClientHello that `data` begins with, in one record or several; None where more must come.

    Raises:
        NoClientHello: it is something else, longer than 64 KiB, or one that two readers could read in two
            ways: with an extension twice, with two names, with lengths that do not agree.
    """
    message = bytearray()
    at = 0
    while True:
        length = _record_length(data, at)
        if length is not None:
            message += data[at + _RECORD_HEAD : at + _RECORD_HEAD + length]
        if message and message[0] != _CLIENT_HELLO:
            raise NoClientHello("its first message is no ClientHello")
        whole = _MESSAGE_HEAD + int.from_bytes(message[1:4], "big") if len(message) >= _MESSAGE_HEAD else None
        end = at + _RECORD_HEAD + (length or 0)
        if max(end, whole or 0) > MOST_HELLO:
            raise NoClientHello(f"its ClientHello has more than {MOST_HELLO:,} bytes")
        if whole is not None and len(message) > whole:
            raise NoClientHello("something follows its ClientHello in the same record")
        if length is None or end > len(data):
            return None
        if len(message) == whole:
            return _read_message(bytes(message[_MESSAGE_HEAD:]))
        at = end


def _record_length(data: bytes | bytearray, at: int) -> int | None:
    """The length of the record at a place; None where its head is not there whole."""
    head = data[at : at + _RECORD_HEAD]
    if head[:1] not in (b"", bytes([_HANDSHAKE])) or head[1:2] not in (b"", b"\x03"):
        raise NoClientHello("it is not TLS")
    if len(head) < _RECORD_HEAD:
        return None
    length = int.from_bytes(head[3:], "big")
    if not 0 < length <= _MOST_RECORD:
        raise NoClientHello(f"a record of {length} bytes")
    return length


class _Bytes:
    """Bytes that are taken from the front."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def take(self, size: int) -> bytes:
        if size > len(self.data):
            raise NoClientHello("a length that leads past its end")
        taken, self.data = self.data[:size], self.data[size:]
        return taken

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, size: int) -> _Bytes:
        """What has its length before it, in `size` bytes."""
        return _Bytes(self.take(self.number(size)))

    def end(self) -> None:
        if self.data:
            raise NoClientHello("a length that ends before what it counts")


def _read_message(data: bytes) -> ClientHello:
    hello = _Bytes(data)
    if hello.number(2) >> 8 != 3:
        raise NoClientHello("a version that is none of TLS")
    hello.take(32)
    hello.vector(1)
    hello.vector(2)
    hello.vector(1)
    if not hello.data:
        return ClientHello(None)
    extensions = hello.vector(2)
    hello.end()
    seen: set[int] = set()
    name = None
    while extensions.data:
        kind, content = extensions.number(2), extensions.vector(2)
        if kind in seen:
            raise NoClientHello("an extension that is there twice")
        seen.add(kind)
        if kind == _SERVER_NAME:
            name = _server_name(content)
    return ClientHello(name)


def _server_name(content: _Bytes) -> str:
    """RFC 6066, 3: a list that holds one name of a host."""
    names = content.vector(2)
    content.end()
    kind, name = names.number(1), names.vector(2).data
    if names.data or kind != _HOST_NAME:
        raise NoClientHello("server names other than one host")
    if not name or not name.isascii() or not name.decode("ascii").isprintable():
        raise NoClientHello("a server name that is no host")
    return name.decode("ascii")
