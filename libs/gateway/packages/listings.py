"""What pages have listed, kept for a while: a file is asked for soon after its page."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

__all__ = ["Listings", "first_of_a_name"]

Key = TypeVar("Key")
Value = TypeVar("Value")

_SECONDS: Final = 600.0
"""For which a listing counts: links may be made to expire."""
_MOST: Final = 50_000
"""Entries of all listings together, about 50 MB."""


class Listings(Generic[Key, Value]):
    """Listings by what they are of, each a mapping of names. The oldest go first."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: OrderedDict[Key, tuple[float, dict[str, Value]]] = OrderedDict()
        self._entries = 0

    def put(self, key: Key, listing: dict[str, Value]) -> None:
        """Keep a listing, in the place of an older one."""
        self._drop(key)
        self._kept[key] = self._clock() + _SECONDS, listing
        self._entries += len(listing)
        while self._entries > _MOST:
            self._drop(next(iter(self._kept)))

    def get(self, key: Key) -> dict[str, Value] | None:
        """A listing that is kept and young enough."""
        until, listing = self._kept.get(key, (0.0, None))
        if listing is not None and self._clock() >= until:
            self._drop(key)
            return None
        return listing

    def _drop(self, key: Key) -> None:
        if key in self._kept:
            self._entries -= len(self._kept.pop(key)[1])


def first_of_a_name(values: Iterable[Value], name: Callable[[Value], str]) -> dict[str, Value]:
    """Values by name; of those with the same, the first."""
    named: dict[str, Value] = {}
    for value in values:
        named.setdefault(name(value), value)
    return named
