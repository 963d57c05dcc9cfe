"""How the page is served: what it may load, how long a browser keeps it, what is said where it is not."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette

from agent.server import page
from agent.server.page import POLICY, read_bundle

FILES = {
    "index.html": b"<!doctype html><title>x</title>" + b"<p>word</p>" * 100,
    "assets/index-abc123.js": b"let x = 1;\n" * 100,
    "assets/index-def456.css": b"p { color: red }\n" * 100,
    "assets/font-1.woff2": bytes(range(256)),
    "favicon.svg": b"<svg/>",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        path = tmp_path / "dist" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (tmp_path / "secret.txt").write_text("not of the page")
    return tmp_path / "dist"


@pytest.fixture
async def client(folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    app = Starlette(routes=page.ROUTES)
    app.state.page = await asyncio.to_thread(read_bundle, folder)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server") as client:
        yield client


@pytest.mark.parametrize("path", ["/app", "/app/", "/app/threads/x", "/app/index.html", "/app/../secret.txt"])
async def test_every_path_that_is_no_file_is_the_page(client: httpx.AsyncClient, path: str) -> None:
    got = await client.get(path, headers={"accept-encoding": "identity"})
    if path == "/app/../secret.txt":  # httpx resolves it: it is another route
        assert got.status_code == 404
        return
    assert (got.status_code, got.content) == (200, FILES["index.html"])
    assert got.headers["content-type"] == "text/html; charset=utf-8"
    assert got.headers["cache-control"] == "private, no-cache"


@pytest.mark.parametrize("name", FILES)
async def test_what_every_part_says(client: httpx.AsyncClient, name: str) -> None:
    got = await client.get(f"/app/{name}")
    assert got.headers["content-security-policy"] == POLICY
    assert got.headers["x-content-type-options"] == "nosniff"
    assert got.headers["referrer-policy"] == "no-referrer"
    assert got.headers["cross-origin-opener-policy"] == "same-origin"
    assert got.content == FILES[name]
    again = await client.get(f"/app/{name}", headers={"if-none-match": got.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_the_policy_lets_nothing_in_the_text_run() -> None:
    rules = dict(rule.split(" ", 1) for rule in POLICY.split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
    assert rules["base-uri"] == rules["form-action"] == rules["frame-ancestors"] == "'none'"
    assert "unsafe" not in POLICY


async def test_what_its_name_tells_apart_is_kept_for_ever(client: httpx.AsyncClient) -> None:
    for name in FILES:
        kept = (await client.get(f"/app/{name}")).headers["cache-control"]
        assert ("immutable" in kept) == name.startswith("assets/")
        assert "private" in kept
    gone = await client.get("/app/assets/index-older.js")
    assert gone.status_code == 404
    assert "Load the page again" in gone.json()["error"]


@pytest.mark.parametrize(
    ("accepted", "packed"), [("gzip, br", True), ("br", False), ("gzip;q=0", False), ("gzip;q=0.5", True)]
)
async def test_it_is_packed_where_that_is_understood(
    client: httpx.AsyncClient, accepted: str, packed: bool
) -> None:
    async with client.stream("GET", "/app", headers={"accept-encoding": accepted}) as got:
        raw = b"".join([piece async for piece in got.aiter_raw()])
    assert (got.headers.get("content-encoding") == "gzip") == packed
    assert (gzip.decompress(raw) if packed else raw) == FILES["index.html"]
    assert len(raw) == int(got.headers["content-length"])
    assert got.headers["vary"] == "Accept-Encoding"


async def test_nothing_beside_the_bundle_is_served(client: httpx.AsyncClient) -> None:
    for path in (
        "/app/%2e%2e/secret.txt",
        "/app/..%2fsecret.txt",
        "/app//etc/passwd",
        "/app/assets/%2e%2e/x",
    ):
        got = await client.get(path)
        assert b"not of the page" not in got.content
        assert got.content == FILES["index.html"] or got.status_code == 404


async def test_where_it_was_not_built_that_is_said(client: httpx.AsyncClient, tmp_path: Path) -> None:
    assert read_bundle(tmp_path / "nowhere") == {}
    client._transport.app.state.page = {}  # type: ignore[attr-defined]
    got = await client.get("/app")
    assert got.status_code == 404
    assert "make ui" in got.json()["error"]
    assert (await client.post("/app")).status_code == 405
