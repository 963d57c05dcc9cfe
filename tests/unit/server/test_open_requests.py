"""Requests that are open when the server ends get 503, also after the server has called itself for them."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from agent.server.durable import graceful_end
from agent.server.durable.graceful_end import OpenRequests, steps_end_first
from agent.threads.drain import Drain


@pytest.fixture(autouse=True)
def own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graceful_end, "DRAIN", Drain())
    monkeypatch.setattr(graceful_end, "process_ends", lambda: None)
    monkeypatch.setattr(graceful_end, "_ANSWER_SECONDS", 0.0)


@pytest.mark.parametrize("calls_itself", [False, True])
async def test_waiting_request_gets_503(*, calls_itself: bool) -> None:
    waits = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/inner":
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        if calls_itself:
            async with httpx.AsyncClient(transport=inner, base_url="http://server") as client:
                assert (await client.get("/inner")).status_code == 204
        waits.set()
        await asyncio.Event().wait()

    served = OpenRequests(app)
    inner = httpx.ASGITransport(served, root_path="/noauth")  # as LangGraph's in-process clients
    outer = httpx.ASGITransport(served)
    async with httpx.AsyncClient(transport=outer, base_url="http://server") as client:
        asked = asyncio.create_task(client.get("/outer"))
        async with steps_end_first(0):
            await waits.wait()
        answer = await asyncio.wait_for(asked, 10)
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "5"
