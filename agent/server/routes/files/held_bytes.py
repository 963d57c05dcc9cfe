"""Limits the bytes of files that all requests together hold in memory until they are sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agent.server.json_exchange import Refused

__all__ = ["ROOM", "HeldResponse", "Room"]


class Room:
    """A budget of bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.taken = 0

    def take(self, size: int) -> None:
        """Take bytes from the budget; the caller gives them back.

        Raises:
            Refused: 503, not enough bytes are left.
        """
        # A single request always gets what it needs.
        if self.taken and self.taken + size > self._most:
            raise Refused(503, "Other files are being sent, as many as there is memory for: try again later.")
        self.taken += size

    def give_back(self, size: int) -> None:
        """Return bytes to the budget."""
        self.taken -= size

    @contextmanager
    def held(self, size: int) -> Iterator[None]:
        """Take bytes for the length of the block. Raises as `take`."""
        self.take(size)
        try:
            yield
        finally:
            self.give_back(size)


class HeldResponse(Response):
    """Gives the bytes of its content back when it is sent, or when the client has left."""

    def __init__(self, room: Room, size: int, content: bytes, **more: Any) -> None:
        super().__init__(content, **more)
        self._room, self._size = room, size

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._room.give_back(self._size)


ROOM = Room(1 << 29)
"""The budget of this process: 512 MiB."""
