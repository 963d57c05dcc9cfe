"""Virtual hosts: parts of the gateway that programs reach by a name of their own, over http."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, contextmanager
from functools import partial
from typing import Final

import h11

from libs.gateway.errors import GatewayError
from libs.gateway.limits import Meter
from libs.gateway.policy import within
from libs.gateway.protocol import Body, Client, Service, ServiceRequest, ServiceResponse
from libs.gateway.request_head import Target
from libs.gateway.request_log import LogEntry
from libs.gateway.rules import DEFAULT_PORTS, in_url
from libs.gateway.streams import Peer

__all__ = ["MOST_BODY", "refuse_other_ways", "serve_virtual"]

logger = logging.getLogger(__name__)

MOST_BODY: Final = 2**20
"""Bytes of a body that a virtual host is sent."""
_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding", b"connection"})
_BARE: Final = (204, 304)
"""Answers without a body."""

Moving = Callable[[], AbstractAsyncContextManager[None]]
"""Ends what takes too long within it. Raises GatewayError."""


def refuse_other_ways(target: Target) -> None:
    """Raises GatewayError for a virtual host where it is not `http` on port 80."""
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
    """Answer a request by a service.

    Args:
        service: answers.
        client: whose request it is.
        near: the program's side.
        request: its request, of which the head was read.
        target: what it is for.
        entry: of the log; is told the status and how many bytes the answer has.
        idle: seconds without a piece of either body after which it ends.

    Raises:
        GatewayError: 413, its body has more than 1 MiB, or the answer more than EGRESS_MAX_BYTES; 500, the
            service failed; 400, it is no HTTP; 504, nothing moves; what the service raises.
        OSError: the program is gone.
    """
    moving = partial(within, idle, f"{target.host} is given up: nothing has moved for {idle:g} s")
    body = await _body(near, target, moving)
    path, _, query = target.path.decode("ascii").partition("?")
    asked = ServiceRequest(
        client, request.method.decode("ascii"), path, query, request.headers.raw_items(), body
    )
    meter = client.limits.meter(target.host)
    with _failing(target):
        response = await service(asked)
    try:
        with _failing(target):
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


@contextmanager
def _failing(target: Target) -> Iterator[None]:
    """What a service has not thought of ends the request, and is told to the person alone."""
    try:
        yield
    except GatewayError:
        raise
    except Exception:
        logger.exception("%s failed", target.host)
        raise GatewayError(500, f"{target.host} failed: the log of the application says why") from None


async def _send(near: Peer, head: h11.Response, body: bytes | Body, meter: Meter, moving: Moving) -> None:
    if isinstance(body, bytes):
        meter.add(came=len(body))
        events = [h11.Data(data=body)] if body else []
        return await near.send(head, *events, h11.EndOfMessage())
    await near.send(head)
    async with aclosing(aiter(body)) as pieces:
        while True:
            async with moving():
                if (piece := await anext(pieces, None)) is None:
                    break
                meter.add(came=len(piece))
                if meter.over:
                    raise meter.overrun()
                await near.send(h11.Data(data=piece))
    return await near.send(h11.EndOfMessage())


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
        if len(body) > MOST_BODY:
            raise GatewayError(413, f"{target.host} takes bodies of {MOST_BODY:,} bytes at most")
