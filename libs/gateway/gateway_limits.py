"""Limits of one sandbox: requests, bytes, seconds and connections; and the time-outs of the gateway."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from libs.gateway.gateway_errors import GatewayError

__all__ = ["ClientLimits", "EgressLimits", "Meter", "Timeouts"]

_MINUTE: Final = 60.0


@dataclass(frozen=True, slots=True)
class EgressLimits:
    """Limits of one sandbox. The settings check their ranges."""

    rate: int = 600
    """Requests and tunnels a minute."""
    max_bytes: int = 2 * 2**30
    """Bytes of one request or tunnel, both ways together."""
    seconds: float = 600.0
    """Seconds that one request or tunnel may last."""
    connections: int = 256
    """Connections at once."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Time-outs, in seconds."""

    head: float = 10.0
    """For the complete head of a request, or a complete TLS handshake."""
    connect: float = 10.0
    """For the name lookup and the connection, TLS included."""
    idle: float = 300.0
    """Without a byte in either direction."""
    keep_alive: float = 60.0
    """For the next request on a connection."""
    linger: float = 2.0
    """For a program to read its last answer and close."""


class Meter:
    """Counts the bytes of one request or tunnel, and remembers when the last byte moved."""

    def __init__(self, host: str, most: int) -> None:
        self._host = host
        self.most = most
        """The limit, in bytes."""
        self.came = 0
        """Bytes that came from the host."""
        self.went = 0
        """Bytes that came from the sandbox."""
        self.last = time.monotonic()

    def add(self, *, came: int = 0, went: int = 0) -> None:
        """Count bytes."""
        self.came += came
        self.went += went
        self.last = time.monotonic()

    @property
    def over(self) -> bool:
        """Whether there are more bytes than allowed."""
        return self.came + self.went > self.most

    def overrun(self) -> GatewayError:
        """Return the error for too many bytes."""
        return GatewayError(
            413, f"{self._host} has more than the {self.most:,} bytes that EGRESS_MAX_BYTES allows at once"
        )

    def left(self, idle: float) -> float:
        """Return the seconds until the idle time-out; negative when it has passed."""
        return self.last + idle - time.monotonic()


class ClientLimits:
    """The usage of one sandbox, shared by its connections. Used on the gateway's event loop only."""

    def __init__(
        self, limits: EgressLimits | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.limits = limits or EgressLimits()
        self.open = 0
        """Open connections."""
        self._clock = clock
        self._admitted: deque[float] = deque()
        self._last_logged: float | None = None

    @contextmanager
    def connection(self) -> Iterator[None]:
        """Count a connection while it is open. Raises GatewayError (429) if there are too many."""
        if self.open >= self.limits.connections:
            raise self._too_much(f"{self.limits.connections} connections of this sandbox are open already")
        self.open += 1
        try:
            yield
        finally:
            self.open -= 1

    def admit(self, host: str) -> None:
        """Count a request or tunnel. Raises GatewayError (429) if there were too many in the last minute."""
        now = self._clock()
        while self._admitted and self._admitted[0] <= now - _MINUTE:
            self._admitted.popleft()
        if len(self._admitted) >= self.limits.rate:
            wait = self._admitted[0] + _MINUTE - now
            raise self._too_much(
                f"{host} is refused for {max(1, round(wait))} s: "
                f"EGRESS_RATE allows {self.limits.rate:,} requests a minute"
            )
        self._admitted.append(now)

    def meter(self, host: str) -> Meter:
        """Return a byte counter for a request or tunnel."""
        return Meter(host, self.limits.max_bytes)

    def _too_much(self, message: str) -> GatewayError:
        now = self._clock()
        repeated = self._last_logged is not None and now < self._last_logged + _MINUTE
        if not repeated:
            self._last_logged = now
        return GatewayError(429, message, repeated=repeated)
