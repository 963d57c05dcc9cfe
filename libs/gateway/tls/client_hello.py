"""Reads the server name from a TLS ClientHello, with the parser of the TLS library."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Final

__all__ = ["MOST_HELLO", "ClientHello", "HelloReader", "NoClientHello"]

MOST_HELLO: Final = 64 * 1024
"""Largest ClientHello with its record headers, in bytes. Usual ones have up to 2 KB."""
_HANDSHAKE: Final = b"\x16"


class NoClientHello(ValueError):
    """The bytes are not the beginning of TLS; the message says why."""


@dataclass(frozen=True, slots=True)
class ClientHello:
    """The parsed message."""

    server_name: str | None
    """The requested host as it was sent, or None."""


class HelloReader:
    """Reads one ClientHello from bytes that come in pieces.

    The reader begins a handshake as a server without a certificate, and ends it as soon as the library has
    parsed the name. The library refuses ambiguous messages: an extension twice, several names, or lengths
    that do not agree.
    """

    def __init__(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        context.set_ciphers("ALL:@SECLEVEL=0")  # the host decides what is too weak
        context.sni_callback = self._found
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=True)
        self._hello: ClientHello | None = None
        self._size = 0

    def feed(self, data: bytes) -> ClientHello | None:
        """Take more bytes. Returns None while the message is incomplete.

        Raises:
            NoClientHello: the bytes are something else, over 64 KiB, or ambiguous.
        """
        if not self._size and data[:1] not in (b"", _HANDSHAKE):
            raise NoClientHello("it is not TLS")
        self._size += len(data)
        self._in.write(data)
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            if self._size > MOST_HELLO:
                raise NoClientHello(f"its ClientHello has more than {MOST_HELLO:,} bytes") from None
        except ssl.SSLError as error:
            if self._hello is None:
                raise NoClientHello(f"its ClientHello is malformed: {error.reason}") from None
        return self._hello

    @property
    def alert(self) -> bytes:
        """The TLS alert `unrecognized_name`, after a complete message."""
        return self._out.read()

    def _found(self, _tls: object, name: str | None, _context: object) -> int:
        self._hello = ClientHello(name)
        return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
