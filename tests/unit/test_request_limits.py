"""Bytes, seconds, requests in a minute and at once: what is too much is refused, what streams goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from agent.server.limits import Bounds, Limits, Rate

BOUNDS = Bounds(max_body=1000, body_seconds=0.2, rate=10_000, concurrency=4, max_body_of={"/small": 10})


def served(**changed: Any) -> Starlette:
    async def echo(request: Request) -> Response:
        return Response(await request.body())

    async def stream(request: Request) -> Response:
        async def body() -> AsyncIterator[bytes]:
            yield b"first"
            await asyncio.sleep(60)

        return StreamingResponse(body())

    bounds = Bounds(**(vars(BOUNDS) | changed))
    paths = ["/", "/small", "/ok", "/health"]
    routes = [Route(path, echo, methods=["GET", "POST"]) for path in paths]
    return Starlette(
        routes=[*routes, Route("/stream", stream)], middleware=[Middleware(Limits, bounds=bounds)]
    )


def client(app: Starlette) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server")


async def pieces(*parts: bytes, wait: float = 0) -> AsyncIterator[bytes]:
    for part in parts:
        yield part
        await asyncio.sleep(wait)


@pytest.mark.parametrize(("path", "most"), [("/", 1000), ("/small", 10)])
async def test_a_body_may_have_so_many_bytes(path: str, most: int) -> None:
    async with client(served()) as http:
        assert (await http.post(path, content=b"a" * most)).content == b"a" * most
        assert (await http.post(path, content=pieces(b"a" * (most - 1), b"b"))).status_code == 200
        for content in (b"a" * (most + 1), pieces(b"a" * most, b"b", b"c")):
            refused = await http.post(path, content=content)
            assert (refused.status_code, str(most) in refused.json()["error"]) == (413, True)
            assert refused.headers["connection"] == "close"


async def test_far_too_large_is_told_before_it_is_sent() -> None:
    """By its length alone: nothing of it is read."""

    async def receive() -> Any:
        raise AssertionError("read")

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"content-length", b"4001")]
    scope = {"type": "http", "method": "POST", "path": "/", "headers": headers, "client": ("1.2.3.4", 5)}
    await Limits(served(), BOUNDS)(scope, receive, send)
    assert sent[0]["status"] == 413


async def test_a_client_that_sends_too_much_is_heard_out_within_reason() -> None:
    taken = 0

    async def receive() -> Any:
        nonlocal taken
        taken += 1
        return {"type": "http.request", "body": b"a" * 500, "more_body": True}

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"transfer-encoding", b"chunked")]
    await Limits(served(), BOUNDS)({"type": "http", "path": "/", "headers": headers}, receive, send)
    assert (sent[0]["status"], taken) == (413, 9)


async def test_a_body_must_come_in_time() -> None:
    async with client(served()) as http:
        slow = await http.post("/", content=pieces(b"a", b"b", wait=5))
        assert (slow.status_code, slow.json()) == (408, {"error": "The body did not come within 0.2 s."})
        assert (await http.post("/", content=pieces(b"a", b"b", wait=0.01))).content == b"ab"


async def test_half_a_request_of_a_client_that_leaves_starts_nothing() -> None:
    called = sent = False

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal called
        called = True

    messages = iter([{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}])

    async def receive() -> Any:
        return next(messages)

    async def send(message: Any) -> None:
        nonlocal sent
        sent = True

    headers = [(b"content-length", b"2")]
    limits = Limits(app, BOUNDS)
    await limits({"type": "http", "method": "POST", "path": "/", "headers": headers}, receive, send)
    assert (called, sent) == (False, False)


async def test_streams_are_not_held_back_and_count_as_at_work() -> None:
    app = served(concurrency=2)
    open_streams = []
    first = asyncio.Queue[bytes]()

    async def stream() -> None:
        async def send(message: Any) -> None:
            if message.get("body"):
                first.put_nowait(message["body"])

        async def receive() -> Any:
            await asyncio.sleep(60)

        await app({"type": "http", "method": "GET", "path": "/stream", "headers": []}, receive, send)

    for _ in range(2):
        open_streams.append(asyncio.create_task(stream()))
        assert await asyncio.wait_for(first.get(), 5) == b"first"
    async with client(app) as http:
        busy = await http.get("/")
        assert (busy.status_code, busy.headers["retry-after"]) == (503, "1")
        assert "2 requests are at work" in busy.json()["error"]
        assert [(await http.get(path)).status_code for path in ("/ok", "/health")] == [200, 200]
        open_streams[0].cancel()
        await asyncio.gather(open_streams[0], return_exceptions=True)
        assert (await http.get("/")).status_code == 200
    open_streams[1].cancel()
    await asyncio.gather(open_streams[1], return_exceptions=True)


async def test_an_owner_takes_at_most_half() -> None:
    go = asyncio.Event()
    statuses: dict[str, list[int]] = {"alice": [], "bob": []}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await go.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})

    limits = Limits(app, BOUNDS)

    async def ask(owner: str) -> None:
        async def send(message: Any) -> None:
            if "status" in message:
                statuses[owner].append(message["status"])

        scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "owner": owner}
        await limits(scope, None, send)  # type: ignore[arg-type]

    asked = [asyncio.create_task(ask(owner)) for owner in ["alice"] * 4 + ["bob"] * 2]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    go.set()
    await asyncio.gather(*asked)
    assert sorted(statuses["alice"]) == [200, 200, 429, 429]
    assert statuses["bob"] == [200, 200]


async def test_too_many_in_a_minute_are_told_when_to_come_again() -> None:
    async with client(served(rate=3)) as http:
        assert [(await http.get("/")).status_code for _ in range(3)] == [200] * 3
        refused = await http.get("/")
        assert refused.status_code == 429
        assert 1 <= int(refused.headers["retry-after"]) <= 20
        assert "more than 3 in a minute" in refused.json()["error"]
        assert (await http.get("/health")).status_code == 200


def test_the_rate_over_time() -> None:
    clock = 0.0
    rate = Rate(60, now=lambda: clock)
    assert [rate.wait("a") for _ in range(60)] == [0] * 60
    assert rate.wait("a") == pytest.approx(1)
    assert rate.wait("b") == 0, "each caller for itself"
    clock = 1.0
    assert rate.wait("a") == 0
    assert rate.wait("a") == pytest.approx(1), "what was refused was not counted"
    clock = 1000.0
    assert [rate.wait("a") for _ in range(60)] == [0] * 60
    assert rate.wait("a") > 0, "a rest saves up no more than a minute's"


def test_callers_are_forgotten() -> None:
    clock = 0.0
    rate = Rate(60, now=lambda: clock)
    for number in range(100_000):
        clock += 0.01
        rate.wait(str(number))
    assert len(rate._paid) < 25_000
