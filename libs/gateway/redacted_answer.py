"""Removes secrets from the answer of a host that was sent a credential."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import h11

from libs.gateway.gateway_errors import GatewayError, printable
from libs.redaction import Redact

__all__ = ["AnswerFilter", "Event"]

Event = h11.InformationalResponse | h11.Response | h11.Data | h11.EndOfMessage

_PIECE = 64 * 1024
"""Bytes that are decoded in one step."""
_FREE = 16 << 20
_RATIO = 100
"""Largest ratio of decoded to received bytes. The first 16 MiB are not checked."""
_DECODED = frozenset({"gzip", "x-gzip", "deflate"})
_EITHER_FORMAT = zlib.MAX_WBITS | 32
"""zlib finds out by the header whether the format is gzip or zlib."""
_OF_THE_CODED = frozenset(b"content-encoding content-length content-md5 content-digest digest".split())
"""Headers that are wrong after decoding."""


class AnswerFilter:
    """Filters one answer: takes the events of h11 and yields the events to send. Does no I/O.

    Filters reason, headers, trailers and body. The body is a stream, so a secret that is cut in two is
    found. gzip and deflate are decoded first. The new length is unknown, so h11 sends the body in chunks.
    """

    def __init__(self, host: str, redact: Redact, method: bytes) -> None:
        self._host = host
        self._redact = redact
        self._stream = redact.stream()
        self._head_only = method == b"HEAD"
        self._decoder: _Inflated | None = None

    def feed(self, event: Event) -> Iterator[Event]:
        """Yield the events to send for `event`, a body in pieces of about 64 KiB.

        Read the iterator to its end before the next event. Pieces are decoded when they are requested, so
        only one is in memory.

        Raises:
            GatewayError: 502, the answer cannot be searched for secrets. If `event` is a Response, nothing
                was sent yet and another answer is possible.
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
            data = bytes(event.data)
            for piece in self._decoder.feed(data) if self._decoder else [data]:
                if clean := self._stream.feed(piece):
                    yield h11.Data(clean)
        else:
            if self._decoder:
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
            # No body follows, and a GET would get a decoded body.
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
        """Remove secrets from header values, and drop headers with a secret in their name."""
        return [(name, self._redact(value)) for name, value in headers if self._redact(name) is name]


class _Undecodable(Exception):
    """The answer cannot be searched for secrets; says why."""


def _codings(response: h11.Response) -> list[str]:
    """Return the codings of a body without `identity`, in the order in which they were applied."""
    listed = b",".join(value for name, value in response.headers if name == b"content-encoding")
    codings = (coding.strip().lower() for coding in listed.decode("latin-1").split(","))
    return [coding for coding in codings if coding not in {"", "identity"}]


class _Inflated:
    """A body in gzip (any number of members) or deflate."""

    def __init__(self, codings: list[str]) -> None:
        """Raise _Undecodable for another coding, or several."""
        self._coding = codings[0]
        if len(codings) > 1 or self._coding not in _DECODED:
            raise _Undecodable(
                f"is encoded as {printable(', '.join(codings), 80)}, which was not asked for: "
                "no secret could be looked for in it"
            )
        self._member: zlib._Decompress | None = None
        self._came = self._went = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        # In slices, because zlib copies its unread input after each piece.
        for at in range(0, len(data), _PIECE):
            yield from self._decoded(data[at : at + _PIECE])

    def end(self) -> None:
        if self._member is not None:
            raise _Undecodable(f"breaks off within what is encoded as {self._coding}")

    def _decoded(self, data: bytes) -> Iterator[bytes]:
        self._came += len(data)
        full = False
        while data or full:
            member = self._member = self._member or zlib.decompressobj(_EITHER_FORMAT)
            try:
                piece = member.decompress(data, _PIECE)
            except zlib.error:
                raise _Undecodable(f"is not encoded as {self._coding}, as it says it is") from None
            if member.eof:
                data, full, self._member = member.unused_data, False, None
            else:
                # zlib may have more output although all input is read.
                data, full = member.unconsumed_tail, len(piece) == _PIECE
            self._went += len(piece)
            if self._went > max(_FREE, _RATIO * self._came):
                raise _Undecodable(f"has more than {_RATIO} times its size once it is decoded")
            if piece:
                yield piece
