"""How much of files is in memory at once: until it is sent, and given back however that ends."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.responses import Response

from agent.server.exchange import Refused
from agent.server.held_bytes import Room


async def send(response: Response, fails: bool = False) -> list[Any]:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request"}

    async def take(message: Any) -> None:
        if fails:
            raise OSError("the client has left")
        sent.append(message)

    await response({"type": "http"}, receive, take)
    return sent


async def test_it_is_held_until_it_is_sent() -> None:
    room = Room(100)
    with room.taken(60) as held:
        answer = held.until_sent(Response(b"x" * 60, headers={"X-A": "b"}, media_type="image/png"))
    assert room.taken_now == 60
    with pytest.raises(Refused, match="try again later") as raised, room.taken(60):
        pass
    assert raised.value.status == 503
    with room.taken(40):
        assert room.taken_now == 100
    [start, body] = await send(answer)
    assert room.taken_now == 0
    assert (body["body"], start["status"]) == (b"x" * 60, 200)
    assert {(b"x-a", b"b"), (b"content-type", b"image/png"), (b"content-length", b"60")} <= {
        *start["headers"]
    }


async def test_it_is_given_back_where_it_fails() -> None:
    room = Room(100)
    with pytest.raises(ValueError, match="no picture"), room.taken(60):
        raise ValueError("no picture")
    assert room.taken_now == 0
    with room.taken(60) as held:
        answer = held.until_sent(Response(b"x" * 60))
    with pytest.raises(OSError, match="has left"):
        await send(answer, fails=True)
    assert room.taken_now == 0


def test_one_alone_may_have_more_than_all() -> None:
    room = Room(100)
    with room.taken(500), pytest.raises(Refused), room.taken(1):
        pass
    assert room.taken_now == 0
