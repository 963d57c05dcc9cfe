"""Tests the budget of bytes in memory: held until sent, given back also after a failure."""

from __future__ import annotations

from typing import Any

import pytest

from agent.server.json_exchange import Refused
from agent.server.routes.files.held_bytes import HeldResponse, Room


async def send(response: HeldResponse, fails: bool = False) -> list[Any]:
    sent: list[Any] = []

    async def take(message: Any) -> None:
        if fails:
            raise OSError("the client has left")
        sent.append(message)

    await response({"type": "http"}, take, take)  # type: ignore[arg-type]
    return sent


async def test_bytes_are_held_until_the_response_is_sent() -> None:
    room = Room(100)
    room.take(60)
    with pytest.raises(Refused, match="try again later") as raised:
        room.take(60)
    assert raised.value.status == 503
    room.take(40)
    room.give_back(40)
    [start, body] = await send(HeldResponse(room, 60, b"x" * 60, media_type="image/png"))
    assert room.taken == 0
    assert (body["body"], start["status"]) == (b"x" * 60, 200)


async def test_bytes_are_given_back_after_a_failure() -> None:
    room = Room(100)
    room.take(500)  # a single request may exceed the budget
    with pytest.raises(OSError, match="has left"):
        await send(HeldResponse(room, 500, b"x"), fails=True)
    assert room.taken == 0
