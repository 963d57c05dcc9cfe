"""One request, read from a program and written anew to its host, and the answer likewise."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

import h11

from libs.gateway.errors import GatewayError, Unreadable, malformed, shown
from libs.gateway.limits import Meter
from libs.gateway.protocol import Answer, Credentials, Event, Headers
from libs.gateway.request_head import Target
from libs.gateway.streams import MOST_HEAD, Duplex, Peer

__all__ = ["Answer", "Credentials", "forward", "inside", "outside", "request_headers"]

_HOP: Final = frozenset(
    b"""connection keep-alive proxy-connection te trailer transfer-encoding upgrade http2-settings""".split()
)
"""Headers that are about one connection (RFC 9110, 7.6.1)."""
_NEVER_NAMED: Final = frozenset(
    b"""host content-length content-type content-encoding authorization cookie set-cookie
    cache-control""".split()
)
"""Headers that `Connection` cannot take away."""
_MOST_AHEAD: Final = 64 * 1024
"""Bytes of further requests that are read while one is under way."""


def inside(stream: Duplex) -> Peer:
    """HTTP with a program in the sandbox."""

    def fault(error: h11.RemoteProtocolError) -> GatewayError:
        return Unreadable(error.error_status_hint, f"the request is malformed: {malformed(error)}")

    return Peer(stream, h11.Connection(h11.SERVER, max_incomplete_event_size=MOST_HEAD), fault)


def outside(stream: Duplex, host: str) -> Peer:
    """HTTP with a host."""

    def fault(error: h11.RemoteProtocolError) -> GatewayError:
        return GatewayError(502, f"{host} answers with what is no HTTP: {malformed(error)}")

    def gone(_: OSError) -> GatewayError:
        return GatewayError(502, f"{host} breaks off the connection")

    return Peer(stream, h11.Connection(h11.CLIENT, max_incomplete_event_size=MOST_HEAD), fault, gone)


def _end_to_end(message: h11.Request | h11.Response) -> list[tuple[bytes, bytes]]:
    """The headers that are for the other end: those of a connection and of proxies are left out."""
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
    """What a request is sent on with, whatever it named as its host.

    Raises:
        GatewayError: 501, it would change to another protocol.
    """
    protocols = b", ".join(value for name, value in request.headers if name == b"upgrade")
    if protocols.lower() not in (b"", b"h2c"):  # curl offers h2c, and does without
        raise GatewayError(
            501, f"{target.host}: no change to {shown(protocols)} is made, whatever EGRESS_ALLOW lists"
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
    answer: Answer | None = None,
) -> int:
    """Send a request on and its answer back; the status of the answer.

    Both bodies go on at the same time, as fast as they are taken, and the answer may come first. Headers are
    those of `request_headers`, or what became of them. Trailers are left out (RFC 9110, 6.5.1).

    Raises:
        GatewayError: the host or the program sends what is no HTTP, or too much; the host is gone; nothing
            moves for `idle` seconds. Whether an answer has begun, `near.http.our_state` tells.
        OSError: the program is gone.
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
        near.http.next_event()  # the end of a body that there is not
        first.append(h11.EndOfMessage())
    await far.send(*first)
    upload = asyncio.create_task(_upload(near, far, meter))
    download = asyncio.create_task(_download(near, far, request, meter, answer))
    try:
        while not download.done():
            if (left := meter.left(idle)) <= 0:
                raise GatewayError(504, f"{target.host} is given up: nothing has moved for {idle:g} s")
            under_way = [task for task in (upload, download) if not task.done()]
            await asyncio.wait(under_way, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if upload.done() and not download.done():
                upload.result()
        return download.result()
    finally:
        upload.cancel()
        download.cancel()
        await asyncio.gather(upload, download, return_exceptions=True)


async def _upload(near: Peer, far: Peer, meter: Meter) -> None:
    """The body of a request; then watch whether the program is there: who sends no more counts as gone."""
    while near.http.their_state is h11.SEND_BODY:
        event = await near.event(meter)
        try:
            if isinstance(event, h11.Data):
                await far.send(event)
            elif isinstance(event, h11.EndOfMessage):
                await far.send(h11.EndOfMessage())
        except GatewayError:
            return  # a host may answer and hang up before it has read all: its answer says why
    while len(near.http.trailing_data[0]) < _MOST_AHEAD:
        data = await near.stream.read()
        near.receive(data, meter)
        if not data:
            raise ConnectionResetError("the program has closed the connection")


async def _download(near: Peer, far: Peer, request: h11.Request, meter: Meter, answer: Answer | None) -> int:
    """The answer."""
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
            await _send(near, answer.feed(event) if answer else [event])
        if isinstance(event, h11.EndOfMessage):
            return status


def _length(message: h11.Request | h11.Response) -> int:
    """The length of its body, where the head says it."""
    return next((int(value) for name, value in message.headers if name == b"content-length"), 0)


def _head(response: h11.Response, near: Peer) -> h11.Response:
    headers = _end_to_end(response)
    if any(name == b"transfer-encoding" for name, _ in response.headers):
        headers = [header for header in headers if header[0].lower() != b"content-length"]
    if near.http.their_state is not h11.DONE:
        # What is left of the request is not read: the connection is of no further use.
        headers.append((b"Connection", b"close"))
    return h11.Response(status_code=response.status_code, reason=response.reason, headers=headers)


async def _send(near: Peer, events: Iterable[Event]) -> None:
    for event in events:
        await near.send(h11.EndOfMessage() if isinstance(event, h11.EndOfMessage) else event)
