"""Errors that the gateway answers a request with."""

from __future__ import annotations

import re

__all__ = ["GatewayError", "Unreadable", "malformed", "printable"]

_UNPRINTABLE = re.compile(r"[^\x20-\x7e]")


class GatewayError(Exception):
    """A request that the gateway answers itself. The message goes to the program and says what to do."""

    def __init__(self, status: int, message: str, *, repeated: bool = False) -> None:
        """`message`: names the host and the setting; `repeated`: logged less than a minute ago."""
        super().__init__(message)
        self.status = status
        self.repeated = repeated

    @property
    def refused(self) -> bool:
        """Whether the gateway refused the request; otherwise something failed."""
        return self.status < 500


class Unreadable(GatewayError):
    """A request that is malformed, too long or too slow. No setting allows it."""

    def __init__(self, status: int, message: str, *, host: str = "") -> None:
        """`host`: the probable host of the unreadable request."""
        super().__init__(status, message)
        self.host = host

    def for_host(self, host: str) -> GatewayError:
        """Return the error to answer with, which names `host` or else the probable host."""
        named = host or self.host
        before = f"{named}: " if named else ""
        return GatewayError(self.status, f"{before}{self}; that is refused whatever EGRESS_ALLOW lists")


def printable(text: str | bytes, most: int = 100) -> str:
    """Return text of the sandbox for a message: printable ASCII, at most `most` characters."""
    text = text.decode("latin-1") if isinstance(text, bytes | bytearray) else text
    text = _UNPRINTABLE.sub("?", text[: most + 1])
    return text if len(text) <= most else text[:most] + "..."


def malformed(error: Exception) -> str:
    """Return the message of h11 without the bytes that it quotes."""
    return printable(str(error).partition(":")[0])
