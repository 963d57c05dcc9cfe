"""What one sandbox may use of the network, and how long anything may take. Every number has a unit."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from libs.gateway.errors import GatewayError

__all__ = ["ClientLimits", "EgressLimits", "Meter", "Timeouts"]

_MINUTE: Final = 60.0


@dataclass(frozen=True, slots=True)
class EgressLimits:
    """Limits of one sandbox.

    Raises:
        ValueError: a limit is out of range; the message names it and the range.
    """

    rate: int = 600
    """Requests and tunnels a minute."""
    max_bytes: int = 2 * 2**30
    """Bytes of one request or tunnel, both ways together."""
    seconds: float = 600.0
    """Seconds that one request or tunnel may last."""
    connections: int = 256
    """Connections at once."""

    def __post_init__(self) -> None:
        bounds: dict[str, tuple[float, float]] = {
            "rate": (1, 1_000_000),
            "max_bytes": (1, 2**50),
            "seconds": (0.001, 7 * 24 * 3600),
            "connections": (1, 65_536),
        }
        for name, (low, high) in bounds.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise ValueError(f"{name} is {value}: it must lie between {low:g} and {high:g}")


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long is waited for anybody, in seconds."""

    head: float = 10.0
    """For the whole head of a request, or the whole beginning of TLS."""
    connect: float = 10.0
    """For a name and a connection, TLS included."""
    idle: float = 300.0
    """While not one byte moves, in either direction."""
    keep_alive: float = 60.0
    """For another request over the same connection."""
    linger: float = 2.0
    """For a program to take its last answer and close."""


class Meter:
    """The bytes of one request or tunnel, and when the last of them moved."""

    def __init__(self, host: str, most: int) -> None:
        self._host = host
        self.most = most
        """Bytes that may be."""
        self.came = 0
        """Bytes that came from the host outside."""
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
        """Whether they are more than may be."""
        return self.came + self.went > self.most

    def overrun(self) -> GatewayError:
        """What is said then."""
        return GatewayError(
            413, f"{self._host} has more than the {self.most:,} bytes that EGRESS_MAX_BYTES allows at once"
        )

    def left(self, idle: float) -> float:
        """Seconds until nothing has moved for `idle` seconds; negative from then on."""
        return self.last + idle - time.monotonic()


class ClientLimits:
    """What one sandbox uses, shared by all its connections. Belongs to the loop of the gateway."""

    def __init__(
        self, limits: EgressLimits | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.limits = limits or EgressLimits()
        self.open = 0
        """Connections at this moment."""
        self._clock = clock
        self._admitted: deque[float] = deque()
        self._told: float | None = None

    @contextmanager
    def connection(self) -> Iterator[None]:
        """Count a connection while it lasts. Raises GatewayError, 429, where there are too many."""
        if self.open >= self.limits.connections:
            raise self._too_much(f"{self.limits.connections} connections of this sandbox are open already")
        self.open += 1
        try:
            yield
        finally:
            self.open -= 1

    def admit(self, host: str) -> None:
        """Count a request or tunnel. Raises GatewayError, 429, where there were too many within a minute."""
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
        """Counts the bytes of a request or tunnel to a host."""
        return Meter(host, self.limits.max_bytes)

    def _too_much(self, message: str) -> GatewayError:
        now = self._clock()
        repeated = self._told is not None and now < self._told + _MINUTE
        if not repeated:
            self._told = now
        return GatewayError(429, message, repeated=repeated)
