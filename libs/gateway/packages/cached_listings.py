"""A cache of index listings, because programs request files soon after the page that lists them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

__all__ = ["Listings"]

Key = TypeVar("Key")
Value = TypeVar("Value")

_SECONDS: Final = 600.0
"""Lifetime of a listing. Links may expire."""
_MOST: Final = 50_000
"""Largest number of entries in all listings, about 50 MB."""


class Listings(Generic[Key, Value]):
    """Listings by key. Each is a mapping of names; the oldest are dropped first."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: dict[Key, tuple[float, dict[str, Value]]] = {}

    def put(self, key: Key, listing: dict[str, Value]) -> None:
        """Store a listing, and replace an older one."""
        self._kept.pop(key, None)
        self._kept[key] = self._clock() + _SECONDS, listing
        while sum(len(listing) for _, listing in self._kept.values()) > _MOST:
            del self._kept[next(iter(self._kept))]

    def get(self, key: Key) -> dict[str, Value]:
        """Return a listing that has not expired, or an empty one."""
        until, listing = self._kept.get(key, (0.0, {}))
        return listing if self._clock() < until else {}
