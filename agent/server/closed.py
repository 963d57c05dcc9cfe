"""Routes of LangGraph's development server that are for nobody here.

`/internal/` shows any thread whole and deletes all of them; `/deploy` uploads this project, at a click: they
have no check of their own. How much a thread takes on the disk is told of LangGraph's own database: else 501.
"""

from __future__ import annotations

import re

from starlette.types import ASGIApp, Receive, Scope, Send

from agent.server.refusals import refuse

__all__ = ["Closed", "is_closed"]

_CLOSED = re.compile(r"/(?:internal|deploy)(?:/.*)?|/threads/[^/]+/storage/?", re.DOTALL)


def is_closed(path: str) -> bool:
    """Whether this is the path of such a route."""
    return _CLOSED.fullmatch(path) is not None


class Closed:
    """Answers 404 where these routes are; ASGI middleware."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in {"http", "websocket"} and is_closed(scope["path"]):
            await refuse(scope, receive, send, 404, "Not Found")
        else:
            await self._app(scope, receive, send)
