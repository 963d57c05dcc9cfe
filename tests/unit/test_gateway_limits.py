"""What one sandbox may use."""

from __future__ import annotations

import pytest

from libs.gateway.errors import GatewayError, shown
from libs.gateway.limits import ClientLimits, EgressLimits, Meter


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_requests_a_minute() -> None:
    clock = Clock()
    limits = ClientLimits(EgressLimits(rate=3), clock=clock)
    for _ in range(3):
        limits.admit("example.com")
        clock.now += 10
    with pytest.raises(
        GatewayError, match=r"example.com is refused for 30 s: EGRESS_RATE allows 3 requests"
    ) as first:
        limits.admit("example.com")
    assert first.value.status == 429
    assert not first.value.repeated
    with pytest.raises(GatewayError) as second:
        limits.admit("example.com")
    assert second.value.repeated
    clock.now += 30
    limits.admit("example.com")
    with pytest.raises(GatewayError):
        limits.admit("example.com")


def test_what_is_refused_does_not_count() -> None:
    clock = Clock()
    limits = ClientLimits(EgressLimits(rate=1), clock=clock)
    limits.admit("example.com")
    for _ in range(100):
        clock.now += 0.5
        with pytest.raises(GatewayError):
            limits.admit("example.com")
    clock.now += 10
    limits.admit("example.com")


def test_connections_at_once() -> None:
    limits = ClientLimits(EgressLimits(connections=2))
    with limits.connection(), limits.connection():
        with pytest.raises(GatewayError, match="2 connections"), limits.connection():
            pass
        assert limits.open == 2
    with limits.connection():
        assert limits.open == 1
    assert limits.open == 0


def test_bytes_both_ways() -> None:
    meter = Meter("example.com", 100)
    meter.add(came=60)
    meter.add(went=40)
    assert not meter.over
    meter.add(went=1)
    assert meter.over
    assert (meter.came, meter.went) == (60, 41)
    assert "EGRESS_MAX_BYTES" in str(meter.overrun())
    assert "example.com" in str(meter.overrun())


def test_time_without_bytes() -> None:
    meter = Meter("example.com", 100)
    assert 9 < meter.left(10) <= 10
    assert meter.left(-1) < 0


@pytest.mark.parametrize("wrong", [{"rate": 0}, {"max_bytes": 0}, {"seconds": 0}, {"connections": 0}])
def test_limits_out_of_range(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} is 0"):
        EgressLimits(**wrong)


def test_what_comes_from_inside_is_shown_safely() -> None:
    assert shown("a\r\nb\x1b[31mc\u202e") == "a??b?[31mc?"
    assert shown(b"\xff\x00x") == "??x"
    assert shown("x" * 200) == "x" * 100 + "..."
    assert shown("x" * 100) == "x" * 100
