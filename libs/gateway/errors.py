"""Why a request gets no answer of the host that it is for."""

from __future__ import annotations

import re

__all__ = ["GatewayError", "Unreadable", "malformed", "shown"]

_UNPRINTABLE = re.compile(r"[^\x20-\x7e]")


class GatewayError(Exception):
    """A request that ends at the gateway. Its message is for the program inside: it says what to do."""

    def __init__(self, status: int, message: str, *, repeated: bool = False) -> None:
        """Take the status of the answer, below 500 where the request was refused.

        Args:
            status: as HTTP has them.
            message: names the host and, where one decided, the setting.
            repeated: the same was said moments ago, and need not be logged again.
        """
        super().__init__(message)
        self.status = status
        self.repeated = repeated

    @property
    def refused(self) -> bool:
        """Whether the gateway decided so; else something failed outside."""
        return self.status < 500


class Unreadable(GatewayError):
    """A request that no setting lets through, since nobody can read it in one way, or whole, or in time."""

    def __init__(self, status: int, message: str, *, host: str = "") -> None:
        """Take the host that it seems to be for, where that much can be read."""
        super().__init__(status, message)
        self.host = host

    def of(self, host: str) -> GatewayError:
        """The same as it is said; `host`: the one that it is for, where that is known."""
        named = host or self.host
        before = f"{named}: " if named else ""
        return GatewayError(self.status, f"{before}{self}; that is refused whatever EGRESS_ALLOW lists")


def shown(text: str | bytes, most: int = 100) -> str:
    """What came from inside, as it may stand in a message: printable ASCII, at most `most` characters."""
    text = text.decode("latin-1") if isinstance(text, bytes | bytearray) else text
    text = _UNPRINTABLE.sub("?", text[: most + 1])
    return text if len(text) <= most else text[:most] + "..."


def malformed(error: Exception) -> str:
    """What h11 says, without the bytes that it quotes."""
    return shown(str(error).partition(":")[0])
