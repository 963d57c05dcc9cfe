"""Bodies that LangGraph's server takes as they come and then breaks on (langgraph-api 0.16).

It answers 500 to some; and an `end_time` of a cron, which it never makes a time of, ends the starting of runs
by the clock: for everybody, and after the next start too.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent.server.redacted_requests import first
from agent.server.refusals import refuse
from agent.sinks import KNOWN

__all__ = ["Unchecked"]

logger = logging.getLogger(__name__)

_CRONS = re.compile(r"(?:/threads/[^/]+)?/runs/crons(?:/[^/]+)?/?")
_READ_UNCHECKED = re.compile(r"/threads/(?:search|count|[^/]+/(?:state|history))/?")
"""Paths whose handlers fail on what they have not looked at, and on nothing else that is known."""

_FAILS_WITH = (TypeError, ValueError, KeyError, NotImplementedError)


class Unchecked:
    """Makes 422 of these, and times of what are times; ASGI middleware, nearest to the server.

    The body must come in one message, as `Limits` sees to.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in {"POST", "PATCH"}:
            await self._app(scope, receive, send)
        elif _CRONS.fullmatch(scope["path"]):
            await self._cron(scope, receive, send)
        elif scope["path"] == "/store/items/search":
            await self._search(scope, receive, send)
        elif _READ_UNCHECKED.fullmatch(scope["path"]):
            await self._read(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _cron(self, scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        try:
            _time((_object(message) or {}).get("end_time"))
        except ValueError:
            await refuse(scope, receive, send, 422, '"end_time" must be a time: 2030-12-31T23:59:59Z.')
            return

        async def send_it(answer: Message) -> None:
            if answer["type"] == "http.response.start":
                await _make_times()
            await send(answer)

        await self._app(scope, first(message, receive), send_it)

    async def _search(self, scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        asked = _object(message)
        if asked is not None and asked.get("namespace_prefix") is None:
            message = {**message, "body": json.dumps({**asked, "namespace_prefix": []}).encode()}
        await self._app(scope, first(message, receive), send)

    async def _read(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def send_it(answer: Message) -> None:
            nonlocal begun
            begun = True
            await send(answer)

        try:
            await self._app(scope, receive, send_it)
        except _FAILS_WITH as error:
            if begun:
                raise
            logger.warning("%s cannot be answered", scope["path"], exc_info=True)
            why = f"The server cannot use this: {type(error).__name__}: {error}"
            await refuse(scope, receive, send, 422, KNOWN(why)[:500])


def _object(message: Message) -> Mapping[str, Any] | None:
    """The body of a request; None where it is no object, which the server says itself."""
    try:
        value = json.loads(message.get("body", b""))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _time(value: object) -> datetime | None:
    """The time that a text names, in UTC where it names no zone; None where it is no text.

    Raises:
        ValueError: it names none.
    """
    if not isinstance(value, str):
        return None
    time = datetime.fromisoformat(value)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


async def _make_times() -> None:
    """Make times of what crons have as text, before anything is written down of them."""
    from langgraph_runtime.database import connect

    async with connect() as connection:
        for cron in connection.store["crons"]:
            if isinstance(cron.get("end_time"), str):
                cron["end_time"] = _time(cron["end_time"])
