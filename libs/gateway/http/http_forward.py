"""Forwards one request to its host and the answer back; both are parsed and written anew."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import h11

from libs.gateway.gateway_errors import GatewayError, Unreadable, malformed, printable
from libs.gateway.gateway_limits import Meter
from libs.gateway.gateway_protocol import Headers
from libs.gateway.gateway_streams import MOST_HEAD, Duplex, Peer
from libs.gateway.http.request_head import Target
from libs.gateway.redacted_answer import AnswerFilter

__all__ = ["forward", "inside", "outside", "request_headers"]

_HOP: Final = frozenset(
    b"""connection keep-alive proxy-connection te trailer transfer-encoding upgrade http2-settings""".split()
)
"""Headers of one connection (RFC 9110, 7.6.1)."""
_NEVER_NAMED: Final = frozenset(
    b"""host content-length content-type content-encoding authorization cookie set-cookie
    cache-control""".split()
)
"""Headers that a `Connection` header cannot remove."""
_MOST_AHEAD: Final = 64 * 1024
"""Bytes of later requests that are read while one is running."""


def inside(stream: Duplex) -> Peer:
    """Return an HTTP connection with a program in the sandbox."""

    def fault(error: h11.RemoteProtocolError) -> GatewayError:
        return Unreadable(error.error_status_hint, f"the request is malformed: {malformed(error)}")

    return Peer(stream, h11.Connection(h11.SERVER, max_incomplete_event_size=MOST_HEAD), fault)


def outside(stream: Duplex, host: str) -> Peer:
    """Return an HTTP connection with a host."""
    http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MOST_HEAD)

    def fault(error: h11.RemoteProtocolError) -> GatewayError:
        if http.trailing_data == (b"", True):  # the host has closed the connection too early
            return gone()
        return GatewayError(502, f"{host} sent an invalid HTTP response: {malformed(error)}")

    def gone(_: OSError | None = None) -> GatewayError:
        return GatewayError(502, f"{host} breaks off the connection")

    return Peer(stream, http, fault, gone)


def _end_to_end(message: h11.Request | h11.Response) -> list[tuple[bytes, bytes]]:
    """Return the headers without those of the connection and of proxies."""
    named = {
        token.strip().lower()
        for name, value in message.headers
        if name == b"connection"
        for token in value.split(b",")
    }
    dropped = _HOP | (named - _NEVER_NAMED)
    return [
        (raw, value)
        for raw, value in message.headers.raw_items()
        if (name := raw.lower()) not in dropped and not name.startswith(b"proxy-")
    ]


def request_headers(request: h11.Request, target: Target) -> list[tuple[bytes, bytes]]:
    """Return the headers to forward; the Host header is that of the target.

    Raises:
        GatewayError: 501, the request asks for another protocol.
    """
    protocols = b", ".join(value for name, value in request.headers if name == b"upgrade")
    if protocols.lower() not in (b"", b"h2c"):  # curl offers h2c and works without
        raise GatewayError(
            501, f"{target.host}: no change to {printable(protocols)} is made, whatever EGRESS_ALLOW lists"
        )
    headers = [(b"Host", target.host_header)]
    headers += [header for header in _end_to_end(request) if header[0].lower() != b"host"]
    return headers


async def forward(
    near: Peer,
    far: Peer,
    request: h11.Request,
    target: Target,
    headers: Headers,
    *,
    meter: Meter,
    idle: float,
    answer: AnswerFilter | None = None,
    check: Callable[[], None] = lambda: None,
) -> int:
    """Forward a request with these headers, and its answer. Returns the status of the answer.

    Both bodies are forwarded at the same time, and the answer may come first. Trailers are dropped
    (RFC 9110, 6.5.1).

    Args:
        check: called before a part of the program's body is forwarded. Raises GatewayError if it must not be.

    Raises:
        GatewayError: invalid HTTP, too many bytes, a broken connection to the host, nothing moved for
            `idle` seconds, or by `check`. `near.http.our_state` says whether an answer has begun.
        OSError: the program has closed the connection.
    """
    chunked = any(name == b"transfer-encoding" for name, _ in request.headers)
    framing = [(b"Transfer-Encoding", b"chunked")] if chunked else []
    sent = h11.Request(
        method=request.method,
        target=target.path,
        headers=[*headers, *framing, (b"Connection", b"close")],
    )
    if _length(request) > meter.most:
        raise meter.overrun()
    first: list[h11.Event] = [sent]
    if chunked or any(name == b"content-length" for name, _ in request.headers):
        meter.add(went=len(near.http.trailing_data[0]))
    else:
        near.http.next_event()  # EndOfMessage of an empty body
        first.append(h11.EndOfMessage())
    await far.send(*first)
    upload = asyncio.create_task(_upload(near, far, meter, check))
    download = asyncio.create_task(_download(near, far, request, meter, answer))
    try:
        while not download.done():
            if (left := meter.left(idle)) <= 0:
                raise GatewayError(504, f"{target.host} is given up: no data for {idle:g} s")
            under_way = [task for task in (upload, download) if not task.done()]
            await asyncio.wait(under_way, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if upload.done() and not download.done():
                upload.result()
        return download.result()
    finally:
        upload.cancel()
        download.cancel()
        await asyncio.gather(upload, download, return_exceptions=True)


async def _upload(near: Peer, far: Peer, meter: Meter, check: Callable[[], None]) -> None:
    """Forward the body of a request, then watch whether the program closes the connection."""
    while near.http.their_state is h11.SEND_BODY:
        event = await near.event(meter)
        check()
        try:
            if isinstance(event, h11.Data):
                await far.send(event)
            elif isinstance(event, h11.EndOfMessage):
                await far.send(h11.EndOfMessage())
        except GatewayError:
            return  # the host may answer and close before it has read the body
    while len(near.http.trailing_data[0]) < _MOST_AHEAD:
        data = await near.stream.read()
        near.receive(data, meter)
        if not data:
            raise ConnectionResetError("the program has closed the connection")


async def _download(
    near: Peer, far: Peer, request: h11.Request, meter: Meter, answer: AnswerFilter | None
) -> int:
    """Forward the answer and return its status."""
    status = 0
    while True:
        event = await far.event(meter)
        if isinstance(event, h11.InformationalResponse):
            if event.status_code == 100 and near.http.they_are_waiting_for_100_continue:
                await near.send(h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue"))
            continue
        if isinstance(event, h11.ConnectionClosed):
            raise far.gone(ConnectionResetError())
        if isinstance(event, h11.Response):
            status = event.status_code
            if request.method != b"HEAD" and _length(event) > meter.most:
                raise meter.overrun()
            event = _head(event, near)
        if isinstance(event, h11.Response | h11.Data | h11.EndOfMessage):
            for filtered in answer.feed(event) if answer else [event]:
                # Trailers are dropped.
                await near.send(h11.EndOfMessage() if isinstance(filtered, h11.EndOfMessage) else filtered)
        if isinstance(event, h11.EndOfMessage):
            return status


def _length(message: h11.Request | h11.Response) -> int:
    """Return the Content-Length, or 0."""
    return next((int(value) for name, value in message.headers if name == b"content-length"), 0)


def _head(response: h11.Response, near: Peer) -> h11.Response:
    headers = _end_to_end(response)
    if any(name == b"transfer-encoding" for name, _ in response.headers):
        headers = [header for header in headers if header[0].lower() != b"content-length"]
    if near.http.their_state is not h11.DONE:
        # The rest of the request is not read, so the connection cannot be used again.
        headers.append((b"Connection", b"close"))
    return h11.Response(status_code=response.status_code, reason=response.reason, headers=headers)
