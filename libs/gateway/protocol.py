"""What the gateway is handed in: who asks, who answers in place of a host, who adds secrets and ends TLS."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import h11

from libs.gateway.limits import ClientLimits

__all__ = [
    "Answer",
    "Authority",
    "Body",
    "Client",
    "Credentials",
    "Event",
    "Headers",
    "Service",
    "ServiceRequest",
    "ServiceResponse",
]

Headers = Sequence[tuple[bytes, bytes]]
"""Names, in any case, and values, in the order in which they are sent."""
Event = h11.InformationalResponse | h11.Response | h11.Data | h11.EndOfMessage


class Authority(Protocol):
    """Ends TLS for hosts that have a credential, with certificates that one sandbox trusts."""

    def context_for(self, host: str) -> ssl.SSLContext:
        """The server's side of TLS as `host`, HTTP/1.1 only. Raises ValueError for any other host."""
        ...


@dataclass(frozen=True, slots=True)
class Client:
    """Who asks: set by the host, never by what comes from inside."""

    sandbox: str
    """Name of the container."""
    thread: str
    """Thread that it works for; may be empty."""
    limits: ClientLimits
    """Shared by all connections of the sandbox."""
    authority: Authority | None = None


class Answer(Protocol):
    """One answer of a host that was shown a secret."""

    def feed(self, event: Event) -> Iterable[Event]:
        """What to send inside for what has come; asked for piece by piece, as fast as it is taken.

        Raises:
            GatewayError: nothing of it can be sent. With the head another answer is given; later on this one
                is broken off.
        """
        ...


class Credentials(Protocol):
    """Which hosts are shown a secret, https only."""

    def __contains__(self, host: str) -> bool: ...

    def sent(self, host: str, headers: Headers) -> Headers:
        """The headers of a request as they leave for a host that has a credential."""
        ...

    def answer(self, host: str, method: bytes) -> Answer:
        """Takes the secrets out of what a host answers to a request."""
        ...


@dataclass(frozen=True, slots=True)
class ServiceRequest:
    """A request to a virtual host."""

    client: Client
    method: str
    path: str
    """As it was sent, percent-encoded; without the query."""
    query: str
    """What follows `?`; may be empty."""
    headers: Headers
    body: bytes
    """At most 1 MiB."""

    @property
    def target(self) -> str:
        """Path and query."""
        return f"{self.path}?{self.query}" if self.query else self.path


class Body(Protocol):
    """A body that comes piece by piece, as fast as it is taken."""

    @property
    def length(self) -> int | None:
        """Bytes that it has, where that is known."""
        ...

    def __aiter__(self) -> AsyncGenerator[bytes, None]:
        """Its pieces, once. Raises GatewayError where it breaks off."""
        ...

    async def aclose(self) -> None:
        """Is awaited in the end, whether it was read or not."""
        ...


@dataclass(frozen=True, slots=True)
class ServiceResponse:
    """What a virtual host answers."""

    status: int
    body: bytes | Body
    headers: Headers = ((b"Content-Type", b"application/json"),)
    """Without those that say how long the body is."""
    reason: str = ""
    """What went wrong although this is the answer, for the log."""


class Service(Protocol):
    """A virtual host, `http://search.gateway` for one: a part of the gateway, nothing is connected."""

    async def __call__(self, request: ServiceRequest) -> ServiceResponse:
        """Answer. Raises GatewayError, which is said as every refusal is."""
        ...
