"""Closes routes of LangGraph's development server that nobody may use.

`/internal/` shows and deletes any thread, and `/deploy` uploads this project; neither checks the caller.
`/threads/…/storage` answers 501 unless the server uses LangGraph's own database.
"""

from __future__ import annotations

import re

from starlette.types import ASGIApp, Receive, Scope, Send

from agent.server.refusals import refuse

__all__ = ["Closed", "is_closed"]

_CLOSED = re.compile(r"/(?:internal|deploy)(?:/.*)?|/threads/[^/]+/storage/?", re.DOTALL)


def is_closed(path: str) -> bool:
    """Return whether a path belongs to a closed route."""
    return _CLOSED.fullmatch(path) is not None


class Closed:
    """Answers 404 on closed routes; ASGI middleware."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in {"http", "websocket"} and is_closed(scope["path"]):
            await refuse(scope, receive, send, 404, "Not Found")
        else:
            await self._app(scope, receive, send)
