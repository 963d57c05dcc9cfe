"""Tests how much of a too large body is read, and how many requests a caller has in a minute."""

from __future__ import annotations

from typing import Any

import pytest

from agent.server.guards.request_limits import Bounds, Limits, Rate

BOUNDS = Bounds(max_body=1000, body_seconds=5, rate=10_000, concurrency=4, max_body_of={"/small": 10})


@pytest.mark.parametrize(
    ("path", "headers", "pieces"),
    [
        ("/", {b"transfer-encoding": b"chunked"}, 9),
        ("/small", {b"transfer-encoding": b"chunked"}, 1),
        ("/", {b"content-length": b"4001"}, 0),
    ],
)
async def test_too_large_body_is_read_up_to_a_limit(
    path: str, headers: dict[bytes, bytes], pieces: int
) -> None:
    taken = 0

    async def receive() -> Any:
        nonlocal taken
        taken += 1
        return {"type": "http.request", "body": b"a" * 500, "more_body": True}

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def nobody(*_: Any) -> None:
        raise AssertionError("the request comes in")

    scope = {"type": "http", "path": path, "headers": list(headers.items())}
    await Limits(nobody, BOUNDS)(scope, receive, send)
    assert (sent[0]["status"], taken) == (413, pieces)


def test_rate_limits_each_caller_over_time() -> None:
    clock = 0.0
    rate = Rate(60, now=lambda: clock)
    assert [rate.wait("a") for _ in range(60)] == [0] * 60
    assert rate.wait("a") == pytest.approx(1)
    assert rate.wait("b") == 0, "each caller for itself"
    clock = 1.0
    assert rate.wait("a") == 0
    assert rate.wait("a") == pytest.approx(1), "what was refused was not counted"
    clock = 1000.0
    assert [rate.wait("a") for _ in range(60)] == [0] * 60
    assert rate.wait("a") > 0, "a rest saves up no more than a minute's"


def test_rate_drops_old_callers() -> None:
    clock = 0.0
    rate = Rate(60, now=lambda: clock)
    for number in range(50_000):
        clock += 0.02
        rate.wait(str(number))
    assert len(rate._paid) < 25_000
