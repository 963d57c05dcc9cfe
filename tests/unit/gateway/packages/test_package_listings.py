"""The cache of index listings: expiry and size."""

from __future__ import annotations

from libs.gateway.packages.cached_listings import Listings


def test_listings_expire_and_the_oldest_are_dropped() -> None:
    now = [0.0]
    listings: Listings[int, int] = Listings(clock=lambda: now[0])
    for number in [*range(60), *[59] * 100]:
        listings.put(number, dict.fromkeys(map(str, range(1_000)), 0))
    now[0] = 599
    assert [number for number in range(60) if listings.get(number)] == list(range(10, 60))
    now[0] = 600
    assert listings.get(59) == {}
