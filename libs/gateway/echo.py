"""What a host answers that was shown a secret, on its way inside: without it, wherever it is repeated."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Protocol

import h11

from libs.gateway.errors import GatewayError, shown
from libs.gateway.redaction import SecretFilter

__all__ = ["Echo", "Event"]

Event = h11.InformationalResponse | h11.Response | h11.Data | h11.EndOfMessage

_PIECE = 64 * 1024
"""Bytes that are decoded at once."""
_FREE = 16 << 20
_RATIO = 100
"""Decoded, a body may have this many times the bytes that came; the first 16 MiB are free."""
_GZIP = frozenset({"gzip", "x-gzip"})
_OF_THE_CODED = frozenset(b"content-encoding content-length content-md5 content-digest digest".split())
"""Headers that no longer hold once a body is decoded."""


class Echo:
    """One answer. Takes what h11 has read of it, gives what is to be sent in its place; does no I/O.

    Reason, headers, trailers and body pass through the filter, the body as a stream: a secret cut in two is
    found, and what begins none is not held back. gzip and deflate are decoded first. The length of a body
    is not known beforehand: Content-Length goes, and h11 sends it in chunks.
    """

    def __init__(self, host: str, redact: SecretFilter, method: bytes) -> None:
        """Begin the answer of `host` to a request with `method`."""
        self._host = host
        self._redact = redact
        self._stream = redact.stream()
        self._head_only = method == b"HEAD"
        self._decoder: _Decoder = _Identity()

    def feed(self, event: Event) -> Iterator[Event]:
        """What to send for `event`, in pieces of about 64 KiB; nothing where it is held back.

        To be used up before the next event: the pieces of a body are decoded as they are asked for, so that
        whoever sends them slowly holds no more than one in memory.

        Raises:
            GatewayError: 502, secrets cannot be looked for in what comes. With Response, nothing has been
                sent yet: another answer can be given. Later on, the answer can only be broken off.
        """
        try:
            yield from self._fed(event)
        except _Undecodable as error:
            raise GatewayError(502, f"{self._host}: the answer {error}") from None

    def _fed(self, event: Event) -> Iterator[Event]:
        if isinstance(event, h11.InformationalResponse):
            yield self._informational(event)
        elif isinstance(event, h11.Response):
            yield self._response(event)
        elif isinstance(event, h11.Data):
            for piece in self._decoder.feed(bytes(event.data)):
                if clean := self._stream.feed(piece):
                    yield h11.Data(clean)
        else:
            self._decoder.end()
            if clean := self._stream.flush():
                yield h11.Data(clean)
            yield h11.EndOfMessage(headers=self._clean(event.headers.raw_items()))

    def _informational(self, event: h11.InformationalResponse) -> h11.InformationalResponse:
        if event.status_code == 101:
            raise _Undecodable("changes the protocol, and no secret could be looked for in that")
        return h11.InformationalResponse(
            status_code=event.status_code,
            headers=self._clean(event.headers.raw_items()),
            reason=self._redact(event.reason),
        )

    def _response(self, event: h11.Response) -> h11.Response:
        dropped = frozenset[bytes]()
        codings = _codings(event)
        if event.status_code == 204:
            dropped = frozenset({b"content-length"})  # RFC 9110, 8.6
        elif self._head_only or event.status_code == 304:
            # No body follows. Those of GET are said to have no coding.
            dropped = _OF_THE_CODED if codings else dropped
        elif codings:
            self._decoder = _Inflated(codings)
            dropped = _OF_THE_CODED
        else:
            dropped = frozenset({b"content-encoding", b"content-length"})
        kept = [header for header in event.headers.raw_items() if header[0].lower() not in dropped]
        return h11.Response(
            status_code=event.status_code, headers=self._clean(kept), reason=self._redact(event.reason)
        )

    def _clean(self, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """Headers without secrets; without those whose name holds one, which could be no name any more."""
        return [(name, self._redact(value)) for name, value in headers if self._redact(name) is name]


class _Undecodable(Exception):
    """A body that cannot be looked through, so that none of what follows may be passed on; says why."""


def _codings(response: h11.Response) -> list[str]:
    """The codings of a body, but for `identity`, in the order in which they were applied."""
    listed = b",".join(value for name, value in response.headers if name == b"content-encoding")
    codings = (coding.strip().lower() for coding in listed.decode("latin-1").split(","))
    return [coding for coding in codings if coding not in {"", "identity"}]


class _Decoder(Protocol):
    def feed(self, data: bytes) -> Iterator[bytes]: ...

    def end(self) -> None: ...


class _Identity:
    """A body that is what it is."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        yield data

    def end(self) -> None:
        pass


class _Inflated:
    """A body in gzip, of any number of members, or in deflate, with the header of zlib or without."""

    def __init__(self, codings: list[str]) -> None:
        """Raises _Undecodable where it is another, or more than one."""
        self._coding = codings[0]
        if len(codings) > 1 or self._coding not in _GZIP | {"deflate"}:
            raise _Undecodable(
                f"is encoded as {shown(', '.join(codings), 80)}, which was not asked for: "
                "no secret could be looked for in it"
            )
        self._member: zlib._Decompress | None = None
        self._held = b""
        self._came = self._went = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        # In slices, since zlib copies whatever it has not read yet after each piece that it gives.
        for at in range(0, len(data), _PIECE):
            yield from self._fed(data[at : at + _PIECE])

    def _fed(self, data: bytes) -> Iterator[bytes]:
        self._came += len(data)
        data, self._held = self._held + data, b""
        while data:
            if self._member is None:
                if self._coding == "deflate" and len(data) < 2:
                    self._held = data
                    return
                self._member = zlib.decompressobj(self._window(data))
            yield from self._decoded(self._member, data)
            data = self._member.unused_data
            if self._member.eof:
                self._member = None
                if data and self._coding not in _GZIP:
                    raise _Undecodable(f"goes on after the end of what is encoded as {self._coding}")

    def end(self) -> None:
        if self._member is not None or self._held:
            raise _Undecodable(f"breaks off within what is encoded as {self._coding}")

    def _window(self, data: bytes) -> int:
        """What tells zlib the format. Deflate has a header (RFC 9110, 8.4.1.2) that some servers omit."""
        if self._coding in _GZIP:
            return zlib.MAX_WBITS | 16
        has_header = data[0] & 0x0F == zlib.DEFLATED and int.from_bytes(data[:2], "big") % 31 == 0
        return zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS

    def _decoded(self, member: zlib._Decompress, data: bytes) -> Iterator[bytes]:
        full = False
        while (data or full) and not member.eof:
            try:
                piece = member.decompress(data, _PIECE)
            except zlib.error:
                raise _Undecodable(f"is not encoded as {self._coding}, as it says it is") from None
            data = member.unconsumed_tail  # of no meaning at the end, where `unused_data` is what is left
            full = (
                len(piece) == _PIECE
            )  # what did not fit may be within zlib, with no input left to show for it
            self._went += len(piece)
            if self._went > max(_FREE, _RATIO * self._came):
                raise _Undecodable(f"has more than {_RATIO} times its size once it is decoded")
            if piece:
                yield piece
