"""Tests that an answer begins only when its change is written, and is 503 if it cannot be written."""

from __future__ import annotations

import asyncio
import sqlite3
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from agent.server.durable import acknowledged
from agent.server.durable.acknowledged import WrittenFirst, keep_writing


class Journal:
    """A journal that records its writes and can fail."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.error: Exception | None = None

    async def write(self) -> None:
        if self.error:
            raise self.error
        await asyncio.sleep(0.01)
        self.steps.append("written")


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch) -> Journal:
    journal = Journal()
    monkeypatch.setattr(acknowledged, "running", lambda: SimpleNamespace(journal=journal))
    return journal


@pytest.fixture
def client(journal: Journal) -> httpx.AsyncClient:
    async def change(request: Request) -> StreamingResponse:
        async def parts() -> Any:
            journal.steps.append("streams")
            yield "abc"

        journal.steps.append("changed")
        return StreamingResponse(parts())

    routes = [Route(path, change, methods=["GET", "POST"]) for path in ("/threads", "/threads/search")]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        async def noted(message: Any) -> None:
            if message["type"] == "http.response.start":
                journal.steps.append("answered")
            await send(message)

        await WrittenFirst(Starlette(routes=routes))(scope, receive, noted)

    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server")


async def test_change_is_answered_after_it_is_written(client: httpx.AsyncClient, journal: Journal) -> None:
    assert (await client.post("/threads")).text == "abc"
    assert journal.steps == ["changed", "written", "answered", "streams"]


@pytest.mark.parametrize(("method", "path"), [("GET", "/threads"), ("POST", "/threads/search")])
async def test_reading_request_does_not_wait_for_the_journal(
    client: httpx.AsyncClient, journal: Journal, method: str, path: str
) -> None:
    await client.request(method, path)
    assert journal.steps == ["changed", "answered", "streams"]


async def test_unwritten_change_is_503(client: httpx.AsyncClient, journal: Journal) -> None:
    journal.error = sqlite3.OperationalError("database or disk is full")
    answer = await client.post("/threads")
    assert answer.status_code == 503
    assert "could not be saved" in answer.json()["error"]
    journal.error = None
    assert (await client.post("/threads")).is_success


async def test_keep_writing_survives_errors(journal: Journal) -> None:
    async with keep_writing(seconds=0.01):
        journal.error = sqlite3.OperationalError("database is locked")
        await asyncio.sleep(0.05)
        assert journal.steps == []
        journal.error = None
        async with asyncio.timeout(10):
            while not journal.steps:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    count = len(journal.steps)
    await asyncio.sleep(0.05)
    assert len(journal.steps) == count
