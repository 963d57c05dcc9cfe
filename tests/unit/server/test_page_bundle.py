"""Tests how the page is served: its policy, caching and compression, and the error of a missing bundle."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette

from agent.server.routes import page
from agent.server.routes.page import POLICY, Bundle

FILES = {
    "index.html": b"<!doctype html><title>x</title>" + b"<p>word</p>" * 100,
    "assets/index-abc123.js": b"let x = 1;\n" * 100,
    "favicon.svg": b"<svg/>",
}


@pytest.fixture
async def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[httpx.AsyncClient]:
    for name, content in FILES.items():
        path = tmp_path / "dist" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (tmp_path / "secret.txt").write_text("not of the page")
    monkeypatch.setattr(page, "BUNDLE", Bundle(directory=tmp_path / "dist"))
    transport = httpx.ASGITransport(Starlette(routes=page.ROUTES))
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
        yield client


@pytest.mark.parametrize("path", ["/app", "/app/threads/x", "/app/index.html", "/app/a%00b"])
async def test_unknown_paths_below_app_serve_the_page(client: httpx.AsyncClient, path: str) -> None:
    got = await client.get(path)
    assert (got.status_code, got.content) == (200, FILES["index.html"])
    assert got.headers["content-type"] == "text/html; charset=utf-8"
    assert got.headers["content-encoding"] == "gzip"


@pytest.mark.parametrize("name", FILES)
async def test_every_file_has_security_headers_and_an_etag(client: httpx.AsyncClient, name: str) -> None:
    got = await client.get(f"/app/{name}")
    assert got.headers["content-security-policy"] == POLICY
    assert got.headers["x-content-type-options"] == "nosniff"
    assert got.headers["referrer-policy"] == "no-referrer"
    assert got.headers["cross-origin-opener-policy"] == "same-origin"
    assert "private" in got.headers["cache-control"]
    assert ("immutable" in got.headers["cache-control"]) == name.startswith("assets/")
    assert got.content == FILES[name]
    again = await client.get(f"/app/{name}", headers={"if-none-match": got.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_policy_allows_no_inline_script() -> None:
    rules = dict(rule.split(" ", 1) for rule in POLICY.split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
    assert rules["base-uri"] == rules["form-action"] == rules["frame-ancestors"] == "'none'"
    assert "unsafe" not in POLICY


async def test_files_outside_the_bundle_are_not_served(client: httpx.AsyncClient) -> None:
    for path in ("/app/%2e%2e/secret.txt", "/app/..%2fsecret.txt", "/app//etc/passwd"):
        assert (await client.get(path)).content == FILES["index.html"]


async def test_missing_file_or_bundle_is_explained(
    client: httpx.AsyncClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = await client.get("/app/assets/index-older.js")
    assert (gone.status_code, "Load the page again" in gone.json()["error"]) == (404, True)
    monkeypatch.setattr(page, "BUNDLE", Bundle(directory=tmp_path / "nowhere", check_dir=False))
    got = await client.get("/app")
    assert (got.status_code, "make ui" in got.json()["error"]) == (404, True)
    assert (await client.post("/app")).status_code == 405
