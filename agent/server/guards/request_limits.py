"""Limits each caller: size and time of a body, requests in a minute, requests at once."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent.server.guards.auth import OPEN
from agent.server.guards.redacted_requests import first
from agent.server.refusals import comes_from_within, refuse

__all__ = ["Bounds", "Limits", "Rate"]

_STILL_READ = 4
"""A body that is too large is read and dropped up to this many times the limit: a client that cannot finish
sending would see a broken connection instead of the answer."""


@dataclass(frozen=True)
class Bounds:
    """The limits."""

    max_body: int
    """Bytes of a body."""
    body_seconds: float
    """Seconds within which a body must be complete."""
    rate: int
    """Requests of one caller in a minute."""
    concurrency: int
    """Requests at once, of all callers."""
    max_body_of: Mapping[str, int]
    """Path -> bytes of a body there, if less than `max_body`."""


class Rate:
    """A token bucket for each caller: `per_minute` requests at once, refilled at that rate."""

    def __init__(self, per_minute: int, now: Callable[[], float] = time.monotonic) -> None:
        self._gap = 60 / per_minute
        self._now = now
        self._paid: dict[str, float] = {}
        """Caller -> the time at which its bucket is full again."""
        self._look_at = 10_000
        """Number of callers at which full buckets are dropped."""

    def wait(self, who: str) -> float:
        """Return the seconds until `who` may ask again; 0 allows this request and counts it."""
        now = self._now()
        paid = max(self._paid.get(who, now), now)
        if (wait := paid + self._gap - now - 60) > 0:
            return wait
        self._paid[who] = paid + self._gap
        if len(self._paid) > self._look_at:
            self._paid = {caller: until for caller, until in self._paid.items() if until > now}
            self._look_at = max(10_000, 2 * len(self._paid))
        return 0


class Limits:
    """Refuses requests over the limits with 408, 413, 429 or 503; ASGI middleware.

    A body is read completely before the server sees it, so half a body starts nothing. Answers are never
    delayed. /ok and /health always answer.
    """

    def __init__(self, app: ASGIApp, bounds: Bounds) -> None:
        self._app = app
        self._bounds = bounds
        self._rate = Rate(bounds.rate)
        self._at_work: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"} or comes_from_within(scope) or scope["path"] in OPEN:
            await self._app(scope, receive, send)
            return
        owner = scope.get("owner")
        client = scope.get("client")
        who = owner or (f"address {client[0]}" if client else "somebody")
        if wait := self._rate.wait(who):
            again = math.ceil(wait)
            why = f"Too many requests: more than {self._bounds.rate} in a minute. Try again in {again} s."
            await refuse(scope, receive, send, 429, why, headers={"Retry-After": str(again)})
            return
        if self._at_work.total() >= self._bounds.concurrency:
            why = f"The server is busy: {self._bounds.concurrency} requests are in progress. Try again."
            await refuse(scope, receive, send, 503, why, headers={"Retry-After": "1"})
            return
        if owner and self._at_work[who] >= math.ceil(self._bounds.concurrency / 2):
            why = f"You have {self._at_work[who]} requests in progress, half of the server's limit. End some."
            await refuse(scope, receive, send, 429, why, headers={"Retry-After": "1"})
            return
        self._at_work[who] += 1
        try:
            await self._with_body(scope, receive, send)
        finally:
            self._at_work[who] -= 1
            if not self._at_work[who]:
                del self._at_work[who]

    async def _with_body(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        most = min(self._bounds.max_body, self._bounds.max_body_of.get(scope["path"], self._bounds.max_body))
        length = headers.get("content-length", "0")
        if scope["type"] == "websocket" or (length == "0" and "transfer-encoding" not in headers):
            await self._app(scope, receive, send)
            return
        try:
            async with asyncio.timeout(self._bounds.body_seconds):
                far_too_large = length.isdigit() and int(length) > _STILL_READ * most
                message = None if far_too_large else await _whole(receive, most)
        except TimeoutError:
            why = f"The body did not arrive within {self._bounds.body_seconds:g} s."
            await refuse(scope, receive, send, 408, why, headers={"Connection": "close"})
            return
        if message is None:
            why = f"The body is too large: at most {most} bytes."
            await refuse(scope, receive, send, 413, why, headers={"Connection": "close"})
        elif message["type"] == "http.request":  # else the client has left, and waits for no answer
            await self._app(scope, first(message, receive), send)


async def _whole(receive: Receive, most: int) -> Message | None:
    """Return the body as one message; None if it is too large; or the message of a client's disconnect."""
    body, size = bytearray(), 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return message
        piece = message.get("body", b"")
        size += len(piece)
        if size <= most:
            body += piece
        if size > _STILL_READ * most or not message.get("more_body", False):
            return {"type": "http.request", "body": bytes(body), "more_body": False} if size <= most else None
