"""What is put around LangGraph's server: each lets the server's start through.

An error in one of them at the `lifespan` scope makes uvicorn take it that the server knows of no start, so
that it listens without any graph.
"""

from __future__ import annotations

from typing import Any

import pytest
from starlette.middleware import Middleware
from starlette.types import Receive, Scope, Send

from agent.http_app import app

EACH = [pytest.param(each, id=getattr(each.cls, "__name__", "")) for each in app.user_middleware]


async def receive() -> Any:
    return {"type": "lifespan.startup"}


async def send(message: Any) -> None: ...


async def passed(middleware: Middleware, scope: Scope) -> list[tuple[Scope, Receive, Send]]:
    """What comes out of it on the other side."""
    seen: list[tuple[Scope, Receive, Send]] = []

    async def inner(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append((scope, receive, send))

    await middleware.cls(inner, *middleware.args, **middleware.kwargs)(scope, receive, send)
    return seen


@pytest.mark.parametrize("middleware", EACH)
async def test_the_start_of_the_server_goes_through(middleware: Middleware) -> None:
    scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": {}}
    [(seen, receiving, sending)] = await passed(middleware, scope)
    assert seen is scope
    assert seen == {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": {}}
    assert (receiving, sending) == (receive, send)


@pytest.mark.parametrize("middleware", EACH)
async def test_a_websocket_that_is_let_in_stays_one(middleware: Middleware) -> None:
    scope: Scope = {
        "type": "websocket",
        "asgi": {"version": "3.0"},
        "scheme": "ws",
        "path": "/threads/1/stream",
        "raw_path": b"/threads/1/stream",
        "query_string": b"",
        "headers": [(b"host", b"localhost:2024")],
        "server": ("127.0.0.1", 2024),
        "client": ("127.0.0.1", 50_000),
        "subprotocols": [],
    }
    before = dict(scope)
    [(seen, _, _)] = await passed(middleware, scope)
    assert {name: seen[name] for name in before} == before


def test_all_of_them_are_looked_at() -> None:
    assert len(EACH) >= 10
