"""A capture that the ledger holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Kept"]


@dataclass(frozen=True, slots=True)
class Kept:
    """A capture that the ledger holds."""

    number: int
    """In the ledger."""
    id: str
    """Of its manifest."""
    skipped: Mapping[str, str]
    """Paths that are not kept, each with the reason."""
