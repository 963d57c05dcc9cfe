"""Tests that known secrets are redacted in requests, because the server stores requests."""

from __future__ import annotations

import json

import httpx
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from agent.server.guards.redacted_requests import RedactedRequests
from libs.redaction import SecretFilter

KEY = 'sk-canary-"Ab/12'
PIN = "481592607384"
MARK = "[REDACTED]"


async def echo(request: Request) -> Response:
    return Response(await request.body())


def client(known: SecretFilter | None) -> httpx.AsyncClient:
    app = Starlette(
        routes=[Route("/", echo, methods=["GET", "POST", "PATCH"])],
        middleware=[Middleware(RedactedRequests, known=known)],
    )
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server")


KNOWN = SecretFilter({"KEY": KEY, "PIN": PIN})


async def test_redacted_json_stays_valid() -> None:
    given = {"input": {"messages": [{"role": "user", "content": f"a {KEY}"}]}, "pin": int(PIN), "n": 1}
    shown = {"input": {"messages": [{"role": "user", "content": f"a {MARK}"}]}, "pin": MARK, "n": 1}
    async with client(KNOWN) as http:
        assert (await http.post("/", json=given)).json() == shown
        assert (await http.patch("/", content=f"{{ {KEY}")).text == f"{{ {MARK}"  # no JSON


async def test_body_without_a_secret_is_unchanged() -> None:
    body = json.dumps({"a": [1.50, "é"], "n": 10**30}, indent=3).encode() + b"\xff" * 9
    for known in (KNOWN, None):
        async with client(known) as http:
            assert (await http.post("/", content=body)).content == body
            assert (await http.get("/")).content == b""


async def test_websocket_messages_are_redacted() -> None:
    given = [
        {"type": "websocket.connect"},
        {"type": "websocket.receive", "text": json.dumps({"input": f"a {KEY}", "pin": int(PIN)})},
        {"type": "websocket.receive", "bytes": f"b {PIN}".encode(), "text": None},
        {"type": "websocket.receive", "text": "plain"},
    ]
    come, seen = iter(given), list[Message]()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.extend([await receive() for _ in given])

    async def receive() -> Message:
        return next(come)

    async def send(message: Message) -> None:
        raise AssertionError(message)

    await RedactedRequests(app, KNOWN)({"type": "websocket", "path": "/"}, receive, send)
    assert seen[0] == given[0]
    assert json.loads(seen[1]["text"]) == {"input": f"a {MARK}", "pin": MARK}
    assert seen[2]["bytes"] == f"b {MARK}".encode()
    assert seen[3] == given[3]
