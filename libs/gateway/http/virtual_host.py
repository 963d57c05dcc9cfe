"""Serves virtual hosts: services of the gateway that programs reach by name over http."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Final

import h11

from libs.gateway.gateway_errors import GatewayError
from libs.gateway.gateway_limits import Meter
from libs.gateway.gateway_protocol import Body, Client, ProgramLeft, Service, ServiceRequest, ServiceResponse
from libs.gateway.gateway_streams import Peer
from libs.gateway.http.policy import within
from libs.gateway.http.request_head import Target
from libs.gateway.request_log import LogEntry
from libs.gateway.rules import DEFAULT_PORTS, in_url

__all__ = ["require_http", "serve_virtual"]

logger = logging.getLogger(__name__)

_MOST_BODY: Final = 2**20
"""Largest body of a request to a virtual host, in bytes."""
_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding", b"connection"})
_BARE: Final = (204, 304)
"""Status codes without a body."""

Moving = Callable[[], AbstractAsyncContextManager[None]]
"""Makes a context that raises GatewayError after the idle time-out."""


def require_http(target: Target) -> None:
    """Raise GatewayError if a virtual host is not asked by http on port 80."""
    if (target.scheme, target.port) != ("http", DEFAULT_PORTS["http"]):
        raise GatewayError(
            403, f"{in_url(target.host)}:{target.port} is not served: write http://{in_url(target.host)}"
        )


async def serve_virtual(
    service: Service,
    client: Client,
    near: Peer,
    request: h11.Request,
    target: Target,
    *,
    entry: LogEntry,
    idle: float,
) -> None:
    """Answer a request with a service. Ends after `idle` seconds without a piece of either body.

    Raises:
        GatewayError: 400, invalid HTTP; 413, a body over 1 MiB or an answer over EGRESS_MAX_BYTES; 500, the
            service failed; 504, idle time-out; and errors of the service.
        OSError: the program has closed the connection.
    """
    moving = partial(within, idle, f"{target.host} is given up: no data for {idle:g} s")
    body = await _body(near, target, moving)
    path, _, query = target.path.decode("ascii").partition("?")
    asked = ServiceRequest(
        client, request.method.decode("ascii"), path, query, request.headers.raw_items(), body, near.left
    )
    meter = client.limits.meter(target.host)
    try:
        response = await service(asked)
    except (GatewayError, ProgramLeft):
        raise
    except Exception:
        logger.exception("%s failed", target.host)
        raise GatewayError(500, f"{target.host} failed: the log of the application says why") from None
    try:
        head, length = _head(response), _length(response)
        if length is not None and length > meter.most:
            raise meter.overrun()
        entry.reason = response.reason
        bare = request.method == b"HEAD" or response.status in _BARE
        entry.status = head.status_code
        await _send(near, head, b"" if bare else response.body, meter, moving)
    finally:
        entry.bytes_in = meter.came
        if not isinstance(response.body, bytes):
            await response.body.aclose()


async def _send(near: Peer, head: h11.Response, body: bytes | Body, meter: Meter, moving: Moving) -> None:
    if isinstance(body, bytes):
        meter.add(came=len(body))
        events = [h11.Data(data=body)] if body else []
        return await near.send(head, *events, h11.EndOfMessage())
    await near.send(head)
    while True:
        async with moving():
            if (piece := await anext(body.pieces, None)) is None:
                return await near.send(h11.EndOfMessage())
            meter.add(came=len(piece))
            if meter.over:
                raise meter.overrun()
            await near.send(h11.Data(data=piece))


def _length(response: ServiceResponse) -> int | None:
    return len(response.body) if isinstance(response.body, bytes) else response.body.length


def _head(response: ServiceResponse) -> h11.Response:
    headers = [header for header in response.headers if header[0].lower() not in _FRAMING]
    if response.status not in _BARE and (length := _length(response)) is not None:
        headers.append((b"Content-Length", str(length).encode()))
    return h11.Response(status_code=response.status, headers=headers)


async def _body(near: Peer, target: Target, moving: Moving) -> bytes:
    if near.http.they_are_waiting_for_100_continue:
        await near.send(h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue"))
    body = bytearray()
    meter = Meter(target.host, 2**50)
    while True:
        async with moving():
            event = await near.event(meter)
        if not isinstance(event, h11.Data):
            return bytes(body)
        body += event.data
        if len(body) > _MOST_BODY:
            raise GatewayError(413, f"{target.host} takes bodies of {_MOST_BODY:,} bytes at most")
