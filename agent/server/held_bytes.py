"""How many bytes of files are held in memory at once, for all that read them, until they are sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agent.server.exchange import Refused

__all__ = ["ROOM", "Held", "Room"]


class Room:
    """So many bytes, and no more."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.taken_now = 0

    @contextmanager
    def taken(self, size: int) -> Iterator[Held]:
        """Take some: until the end of the block, or until what it has made is sent.

        Raises:
            Refused: 503, there is not so much left.
        """
        # One alone may always have what it needs.
        if self.taken_now and self.taken_now + size > self._most:
            raise Refused(503, "Other files are being sent, as many as there is memory for: try again later.")
        self.taken_now += size
        held = Held(self, size)
        try:
            yield held
        finally:
            if not held.goes_on:
                self.taken_now -= size


class Held:
    """What was taken."""

    def __init__(self, room: Room, size: int) -> None:
        self._room = room
        self._size = size
        self.goes_on = False

    def until_sent(self, response: Response) -> Response:
        """The response, with which it is given back: a slow client holds what it has asked for."""
        self.goes_on = True
        return _Sent(response, self)

    def give_back(self) -> None:
        """It is not needed any more."""
        self._room.taken_now -= self._size


class _Sent(Response):
    def __init__(self, response: Response, held: Held) -> None:
        super().__init__(response.body)
        self.raw_headers = response.raw_headers
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._held.give_back()


ROOM = Room(1 << 29)
"""Of this process."""
