"""An answer begins when what it tells of is written, and says so when it cannot be."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from agent.server import acknowledged
from agent.server.acknowledged import WrittenFirst, keep_writing


class Journal:
    """Notes when it is written; may fail."""

    def __init__(self, told: list[str]) -> None:
        self.told = told
        self.error: Exception | None = None

    async def write(self) -> None:
        if self.error:
            raise self.error
        await asyncio.sleep(0.01)
        self.told.append("written")


class At:
    def __init__(self, journal: Journal) -> None:
        self.journal = journal


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def journal(told: list[str], monkeypatch: pytest.MonkeyPatch) -> Journal:
    journal = Journal(told)
    monkeypatch.setattr(acknowledged, "running", lambda: At(journal))
    return journal


@pytest.fixture
def client(told: list[str]) -> httpx.AsyncClient:
    async def change(request: Request) -> JSONResponse:
        told.append("changed")
        return JSONResponse({"done": True})

    async def stream(request: Request) -> StreamingResponse:
        async def parts() -> Any:
            told.append("streams")
            for part in ("a", "b", "c"):
                yield part

        told.append("changed")
        return StreamingResponse(parts())

    methods = ["GET", "POST", "DELETE"]
    routes = [
        Route("/threads", change, methods=methods),
        Route("/threads/search", change, methods=methods),
        Route("/stream", stream, methods=methods),
    ]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        async def noted(message: Any) -> None:
            if message["type"] == "http.response.start":
                told.append("answered")
            await send(message)

        await WrittenFirst(Starlette(routes=routes))(scope, receive, noted)

    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server")


@pytest.mark.parametrize("method", ["POST", "DELETE"])
async def test_what_changes_something_is_answered_when_it_is_written(
    client: httpx.AsyncClient, journal: Journal, told: list[str], method: str
) -> None:
    assert (await client.request(method, "/threads")).json() == {"done": True}
    assert told == ["changed", "written", "answered"]


async def test_a_stream_begins_when_its_run_is_written(
    client: httpx.AsyncClient, journal: Journal, told: list[str]
) -> None:
    assert (await client.post("/stream")).text == "abc"
    assert told == ["changed", "written", "answered", "streams"]


@pytest.mark.parametrize(("method", "path"), [("GET", "/threads"), ("POST", "/threads/search")])
async def test_what_looks_something_up_waits_for_nothing(
    client: httpx.AsyncClient, journal: Journal, told: list[str], method: str, path: str
) -> None:
    await client.request(method, path)
    assert told == ["changed", "answered"]


@pytest.mark.parametrize("path", ["/threads", "/stream"])
async def test_what_cannot_be_written_is_not_acknowledged(
    client: httpx.AsyncClient, journal: Journal, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    journal.error = sqlite3.OperationalError("database or disk is full")
    answer = await client.post(path)
    assert answer.status_code == 503
    assert "could not be written down" in answer.json()["error"]
    assert "database or disk is full" in caplog.text
    journal.error = None
    assert (await client.post(path)).is_success


async def test_without_a_server_of_ours_nothing_is_written(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, told: list[str]
) -> None:
    monkeypatch.setattr(acknowledged, "running", lambda: None)
    assert (await client.post("/threads")).is_success
    assert told == ["changed", "answered"]


async def test_it_is_written_again_and_again_whatever_happens(journal: Journal, told: list[str]) -> None:
    async with keep_writing(seconds=0.01):
        journal.error = sqlite3.OperationalError("database is locked")
        await asyncio.sleep(0.05)
        assert told == []
        journal.error = None
        await asyncio.sleep(0.1)
        assert len(told) > 1
    count = len(told)
    await asyncio.sleep(0.05)
    assert len(told) == count
