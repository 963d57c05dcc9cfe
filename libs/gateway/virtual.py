"""Virtual hosts: parts of the gateway that programs reach by a name of their own, over http."""

from __future__ import annotations

import logging
from typing import Final

import h11

from libs.gateway.errors import GatewayError
from libs.gateway.limits import Meter
from libs.gateway.protocol import Client, Service, ServiceRequest, ServiceResponse
from libs.gateway.request_head import Target
from libs.gateway.rules import DEFAULT_PORTS, in_url
from libs.gateway.streams import Peer

__all__ = ["MOST_BODY", "refuse_other_ways", "serve_virtual"]

logger = logging.getLogger(__name__)

MOST_BODY: Final = 2**20
"""Bytes of a body that a virtual host is sent."""
_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding", b"connection"})


def refuse_other_ways(target: Target) -> None:
    """Raises GatewayError for a virtual host where it is not `http` on port 80."""
    if (target.scheme, target.port) != ("http", DEFAULT_PORTS["http"]):
        raise GatewayError(
            403, f"{in_url(target.host)}:{target.port} is not served: write http://{in_url(target.host)}"
        )


async def serve_virtual(
    service: Service, client: Client, near: Peer, request: h11.Request, target: Target
) -> int:
    """Answer a request by a service; the status.

    Raises:
        GatewayError: 413, its body has more than 1 MiB; 500, the service failed; 400, it is no HTTP.
        OSError: the program is gone.
    """
    body = await _body(near, target)
    path, _, query = target.path.decode("ascii").partition("?")
    asked = ServiceRequest(
        client, request.method.decode("ascii"), path, query, request.headers.raw_items(), body
    )
    try:
        response = await service(asked)
        head = _head(response)
    except Exception:
        logger.exception("%s failed", target.host)
        raise GatewayError(500, f"{target.host} failed: the log of the application says why") from None
    events: list[h11.Event] = [head, h11.EndOfMessage()]
    if request.method != b"HEAD" and response.status not in (204, 304):
        events.insert(1, h11.Data(data=response.body))
    await near.send(*events)
    return response.status


def _head(response: ServiceResponse) -> h11.Response:
    headers = [header for header in response.headers if header[0].lower() not in _FRAMING]
    if response.status not in (204, 304):
        headers.append((b"Content-Length", str(len(response.body)).encode()))
    return h11.Response(status_code=response.status, headers=headers)


async def _body(near: Peer, target: Target) -> bytes:
    if near.http.they_are_waiting_for_100_continue:
        await near.send(h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue"))
    body = bytearray()
    meter = Meter(target.host, 2**50)
    while isinstance(event := await near.event(meter), h11.Data):
        body += event.data
        if len(body) > MOST_BODY:
            raise GatewayError(413, f"{target.host} takes bodies of {MOST_BODY:,} bytes at most")
    return bytes(body)
