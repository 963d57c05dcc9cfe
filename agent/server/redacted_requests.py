"""Requests come in without secrets.

The server keeps what it is sent before a graph sees it: a run's input, answers, metadata, all in
`.langgraph_api/`.
"""

from __future__ import annotations

import json

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from libs.gateway.redaction import SecretFilter

__all__ = ["RedactedRequests", "first"]


class RedactedRequests:
    """Takes secrets out of the bodies of requests, and of messages on WebSockets; ASGI middleware.

    A body that holds one is read as JSON, and the secret taken out of its values, so that it stays JSON. The
    person sees `[REDACTED]` in the message that comes back. A body without one passes as it came. Files are
    left to their route, which refuses one with a secret: the agent would find a broken file.
    """

    def __init__(self, app: ASGIApp, known: SecretFilter | None) -> None:
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


def _without(known: SecretFilter, body: bytes) -> bytes:
    shown = known(body)
    if shown is body:
        return body
    try:
        return json.dumps(known.values(json.loads(body))).encode()
    except ValueError:
        return shown


def _clean(known: SecretFilter, receive: Receive) -> Receive:
    """The messages that a client sends over a WebSocket, without secrets."""

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
    """What gives `message`, and then goes on with `receive`."""
    given = False

    async def receive_it() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return message

    return receive_it
