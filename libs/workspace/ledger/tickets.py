"""Tickets: each names one moment of a thread."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

__all__ = ["NOTHING_RAN", "START", "Ticket", "made_at", "new_ticket"]

NOTHING_RAN: Final = "no command has run since"
"""Why a ticket has no capture: no command of its turn has begun until then."""
START: Final = ""
"""Stands for the moment before a thread's first turn."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """A name for the workspace at one moment of a thread."""

    id: str
    number: int | None
    """The capture. None: it was not made, or not to its end."""
    why: str | None
    """Why there is no capture."""


def new_ticket(after: str = START) -> str:
    """Return a new ticket. It is greater than the ticket `after`, even if the clock was set back."""
    earliest = _nanoseconds(after) + 1 if after else 0
    return f"{max(time.time_ns(), earliest):020d}-{secrets.token_hex(4)}"


def made_at(ticket: str) -> datetime:
    """Return when a ticket was made."""
    return datetime.fromtimestamp(_nanoseconds(ticket) / 1e9, UTC)


def _nanoseconds(ticket: str) -> int:
    return int(ticket.split("-", maxsplit=1)[0])
