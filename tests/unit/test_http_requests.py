"""Requests to the server come in without known secrets: it keeps what it is sent (G6)."""

from __future__ import annotations

import json

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from agent.server.redacted_requests import RedactedRequests
from libs.gateway.redaction import SecretFilter

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


@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_json_stays_json(method: str) -> None:
    given = {"input": {"messages": [{"role": "user", "content": f"a {KEY}"}]}, "pin": int(PIN), "n": 1}
    async with client(KNOWN) as http:
        answer = await http.request(method, "/", json=given)
    assert answer.json() == {
        "input": {"messages": [{"role": "user", "content": f"a {MARK}"}]},
        "pin": MARK,
        "n": 1,
    }


async def test_what_is_no_json() -> None:
    async with client(KNOWN) as http:
        assert (await http.post("/", content=f"{{ {KEY}")).text == f"{{ {MARK}"


async def test_what_holds_none_passes_as_it_came() -> None:
    body = json.dumps({"a": [1.50, "é"], "n": 10**30}, indent=3).encode() + b"\xff" * 9
    pieces = [body[at : at + 7] for at in range(0, len(body), 7)]

    async def stream():  # type: ignore[no-untyped-def]
        for piece in pieces:
            yield piece

    for known in (KNOWN, None):
        async with client(known) as http:
            assert (await http.post("/", content=body)).content == body
            assert (await http.post("/", content=stream())).content == body
            assert (await http.get("/")).content == b""


async def test_messages_on_websockets_too() -> None:
    given = [
        {"type": "websocket.connect"},
        {"type": "websocket.receive", "text": json.dumps({"input": f"a {KEY}", "pin": int(PIN)})},
        {"type": "websocket.receive", "bytes": f"b {PIN}".encode(), "text": None},
        {"type": "websocket.receive", "text": "plain"},
    ]
    come = iter(given)
    seen: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        for _ in given:
            seen.append(await receive())

    async def receive() -> Message:
        return next(come)

    async def send(message: Message) -> None:
        raise AssertionError(message)

    await RedactedRequests(app, KNOWN)({"type": "websocket", "path": "/"}, receive, send)
    assert seen[0] == given[0]
    assert json.loads(seen[1]["text"]) == {"input": f"a {MARK}", "pin": MARK}
    assert seen[2]["bytes"] == f"b {MARK}".encode()
    assert seen[3] == given[3]
