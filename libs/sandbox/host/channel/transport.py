"""Describes the connection that a channel needs."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Transport"]


class Transport(Protocol):
    """A connection to a supervisor's standard input and output."""

    def receive(self) -> bytes:
        """Wait for the next bytes and return them. Empty at the end of the connection."""
        ...

    def send_now(self, data: bytes) -> int:
        """Send as many bytes as possible without waiting. Return their number.

        Raises:
            OSError: the connection has ended.
        """
        ...

    def send(self, data: bytes) -> None:
        """Send all bytes and wait where needed. Raises OSError like `send_now`."""
        ...

    def close(self) -> None:
        """End the connection. A thread that waits in `receive` returns."""
        ...

    def epitaph(self) -> str:
        """Return why the connection ended. Empty where the reason is not known."""
        ...
