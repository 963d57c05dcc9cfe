"""Refuses bodies that LangGraph's server accepts and then fails on (langgraph-api 0.16).

The server answers 500 to some bodies. It also never parses the `end_time` of a cron; the text then stops the
cron scheduler for everybody, even after a restart.
"""

from __future__ import annotations

import json
import logging
import re

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent.secrets import KNOWN
from agent.server.guards.redacted_requests import first
from agent.server.refusals import refuse

__all__ = ["Unchecked"]

logger = logging.getLogger(__name__)

_CRONS = re.compile(r"(?:/threads/[^/]+)?/runs/crons(?:/[^/]+)?/?")
_READ_UNCHECKED = re.compile(r"/store/items/search|/threads/(?:search|count|[^/]+/(?:state|history))/?")
"""Paths whose handlers raise on values that they have not validated."""

_FAILS_WITH = (TypeError, ValueError, KeyError, NotImplementedError)


class Unchecked:
    """Answers 422 to such bodies; the innermost ASGI middleware.

    The body must come in one message; `Limits` ensures that.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        changes = scope["type"] == "http" and scope["method"] in {"POST", "PATCH"}
        if changes and _READ_UNCHECKED.fullmatch(scope["path"]):
            await self._explained(scope, receive, send)
            return
        if changes and _CRONS.fullmatch(scope["path"]):
            message = await receive()
            if _has_end_time(message):
                await refuse(scope, receive, send, 422, 'A cron has no "end_time" here: leave it out.')
                return
            receive = first(message, receive)
        await self._app(scope, receive, send)

    async def _explained(self, scope: Scope, receive: Receive, send: Send) -> None:
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


def _has_end_time(message: Message) -> bool:
    try:
        value = json.loads(message.get("body", b""))
    except (ValueError, RecursionError):  # the server reports the error
        return False
    return isinstance(value, dict) and value.get("end_time") is not None
