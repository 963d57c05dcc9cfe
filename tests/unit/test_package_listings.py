"""What pages have listed is kept for a while, and not without end."""

from __future__ import annotations

from libs.gateway.packages.listings import Listings, first_of_a_name


def test_they_are_forgotten_after_ten_minutes() -> None:
    now = [0.0]
    listings: Listings[str, int] = Listings(clock=lambda: now[0])
    listings.put("a", {"x": 1})
    now[0] = 599
    assert listings.get("a") == {"x": 1}
    now[0] = 600
    assert listings.get("a") is None


def test_the_oldest_go_where_there_are_too_many() -> None:
    listings: Listings[int, int] = Listings()
    for number in range(60):
        listings.put(number, dict.fromkeys(map(str, range(1_000)), 0))
    kept = [number for number in range(60) if listings.get(number)]
    assert kept == list(range(10, 60))


def test_a_newer_one_takes_the_place() -> None:
    listings: Listings[str, int] = Listings()
    for _ in range(200):
        listings.put("a", dict.fromkeys(map(str, range(1_000)), 0))
    listings.put("b", {"x": 1})
    assert (len(listings.get("a") or {}), listings.get("b")) == (1_000, {"x": 1})


def test_one_that_is_larger_than_all_may_be_is_not_kept() -> None:
    listings: Listings[str, int] = Listings()
    listings.put("a", dict.fromkeys(map(str, range(60_000)), 0))
    assert listings.get("a") is None


def test_the_first_of_a_name_counts() -> None:
    assert first_of_a_name(["a1", "b1", "a2"], lambda text: text[0]) == {"a": "a1", "b": "b1"}
