"""What ends a run of this agent."""

from __future__ import annotations

__all__ = ["LiteError"]


class LiteError(Exception):
    """The run is over; `str(error)` is what the person is told: no secret, no path of this machine."""
