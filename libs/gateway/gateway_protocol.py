"""The interface of virtual hosts: client, request, answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from libs.gateway.gateway_limits import ClientLimits

if TYPE_CHECKING:
    from libs.gateway.tls import Authority

__all__ = ["Body", "Client", "Headers", "ProgramLeft", "Service", "ServiceRequest", "ServiceResponse"]

Headers = Sequence[tuple[bytes, bytes]]
"""Header names, in any case, and values, in order."""


_MOST_UNREACHED = 100
"""Hosts that are noted for one sandbox. A program chooses the names."""


@dataclass(frozen=True, slots=True)
class Client:
    """The sandbox that a connection belongs to. Set by the host, never by data of the sandbox."""

    sandbox: str
    """Name of the container."""
    thread: str
    """Thread of the sandbox; may be empty."""
    limits: ClientLimits
    """Shared by all connections of the sandbox."""
    authority: Authority | None = None
    """Makes certificates for hosts that have a credential."""
    refused: Callable[[], set[str] | None] = lambda: None
    """Returns a set if nothing of this connection is let out. It gets the hosts that would be reached."""
    unreached: set[str] = field(default_factory=set)
    """The hosts that a program of the sandbox may not reach, and those with which no connection was made: at
    most the first 100."""
    declared: Callable[[], Collection[str]] = tuple
    """Returns the tools of MCP servers that the command of this connection has declared, until its end."""

    def note_unreached(self, host: str) -> None:
        """Add a host to `unreached`."""
        if len(self.unreached) < _MOST_UNREACHED:
            self.unreached.add(host)


async def _never() -> None:
    await asyncio.get_running_loop().create_future()


@dataclass(frozen=True, slots=True)
class ServiceRequest:
    """A request to a virtual host."""

    client: Client
    method: str
    path: str
    """Percent-encoded, without the query."""
    query: str
    """The part after `?`; may be empty."""
    headers: Headers
    body: bytes
    """At most 1 MiB."""
    left: Callable[[], Awaitable[None]] = _never
    """Returns when the program has closed its connection."""


class ProgramLeft(ConnectionError):
    """A service ends its work because the program has closed the connection: see `ServiceRequest.left`."""


@dataclass(frozen=True, slots=True)
class Body:
    """A body in pieces."""

    pieces: AsyncIterator[bytes]
    """Raises GatewayError where the body breaks off."""
    length: int | None
    """In bytes, or None if unknown."""
    aclose: Callable[[], Awaitable[None]]
    """Releases the body. Always awaited, also for an unread body."""


@dataclass(frozen=True, slots=True)
class ServiceResponse:
    """The answer of a virtual host."""

    status: int
    body: bytes | Body
    headers: Headers = ((b"Content-Type", b"application/json"),)
    """Without headers about the length of the body."""
    reason: str = ""
    """A remark for the log."""


class Service(Protocol):
    """A virtual host such as `http://search.gateway`, which the gateway itself serves."""

    async def __call__(self, request: ServiceRequest) -> ServiceResponse:
        """Answer a request. A GatewayError becomes the error answer."""
        ...
