"""What the sources of a file of weights have in common."""

from __future__ import annotations

__all__ = ["SourceFailed"]


class SourceFailed(Exception):
    """A source cannot give the bytes, or no more of them; the message is a sentence with the reason."""
