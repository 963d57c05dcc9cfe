"""Redacts known secrets in requests, before LangGraph's server stores them.

The server saves a run's input, answers and metadata to `.langgraph_api/` before a graph sees them.
"""

from __future__ import annotations

import json

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from libs.redaction import Redact

__all__ = ["RedactedRequests", "first"]


class RedactedRequests:
    """Redacts secrets in bodies and WebSocket messages; ASGI middleware.

    A body with a secret is parsed and redacted value by value, so that it stays valid JSON; the person sees
    `[REDACTED]` in the message that comes back. A body without a secret passes unchanged. Uploaded files
    pass too: their route refuses a file with a secret, because a redacted file would be broken.
    """

    def __init__(self, app: ASGIApp, known: Redact | None) -> None:
        self._app = app
        self._known = known

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket" and self._known:
            await self._app(scope, _clean(self._known, receive), send)
            return
        plain = scope["type"] != "http" or scope["method"] in {"GET", "HEAD", "OPTIONS"}
        if plain or not self._known or scope["path"].startswith("/files/"):
            await self._app(scope, receive, send)
            return
        body = b""
        while True:
            message = await receive()
            if message["type"] != "http.request":  # the client has left
                break
            body += message.get("body", b"")
            if not message.get("more_body", False):
                message = {"type": "http.request", "body": _without(self._known, body), "more_body": False}
                break
        await self._app(scope, first(message, receive), send)


def _without(known: Redact, body: bytes) -> bytes:
    shown = known(body)
    if shown is body:
        return body
    try:
        return json.dumps(known.values(json.loads(body))).encode()
    except ValueError:
        return shown


def _clean(known: Redact, receive: Receive) -> Receive:
    """Return a `receive` that redacts the client's WebSocket messages."""

    async def receive_it() -> Message:
        message = await receive()
        if message["type"] == "websocket.receive":
            if (text := message.get("text")) is not None:
                message = {**message, "text": _without(known, text.encode()).decode()}
            if (data := message.get("bytes")) is not None:
                message = {**message, "bytes": _without(known, data)}
        return message

    return receive_it


def first(message: Message, receive: Receive) -> Receive:
    """Return a `receive` that gives `message` first, then goes on with the given `receive`."""
    given = False

    async def receive_it() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return message

    return receive_it
