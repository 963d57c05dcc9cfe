"""Tests which requests of web pages are allowed: by Host, Origin, Fetch metadata and content type."""

from __future__ import annotations

from typing import Any

import pytest

from agent.config import SettingsError, load_settings
from agent.server.guards.origins import Origins

STUDIO = "https://smith.langchain.com"
APP = "https://agent.example.com"
JSON = {"content-type": "application/json", "content-length": "2"}


async def answer(
    kind: str = "http", root_path: str = "", method: str = "POST", path: str = "/threads", **headers: str
) -> int:
    """Return the status of a request with these headers; underscores stand for hyphens."""
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("the body is not read")

    given = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    scope = {
        "type": kind,
        "method": method,
        "path": path,
        "root_path": root_path,
        "headers": given,
        "server": ("10.1.2.3", 2024),
    }
    await Origins(app, [STUDIO, APP])(scope, receive, send)
    return int(sent[0].get("status") or sent[0]["code"])


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:2024", "127.1.2.3", "[::1]:2024", "10.1.2.3:9"],
)
async def test_own_host_names_and_their_origins_are_allowed(host: str) -> None:
    assert await answer(host=host) == 200
    own = f"http://{host.lower()}"
    assert await answer(host=host, origin=own, **JSON) == 200
    assert await answer(host=host, origin=STUDIO, **JSON) == 200
    assert await answer(host=host, origin=f"{own}1") == 403
    assert await answer(host=host, origin="http://localhost:8000") == 403


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "127.0.0.1.evil.example", "10.1.2.4", "localhost:2024@evil.example",
        "localhost, evil.example", "", "::1", "smith.langchain.com.evil.example",
    ],
)  # fmt: skip
async def test_other_host_names_are_403(host: str) -> None:
    """A page whose own host name points to this server (DNS rebinding) gets 403, even from that origin."""
    assert await answer() == await answer(host=host) == 403
    assert await answer(host=host, origin=f"http://{host}", **JSON) == 403


@pytest.mark.parametrize(
    "origin",
    [
        "null", "", "https://evil.example", "http://smith.langchain.com", f"{STUDIO}:8443",
        "https://SMITH.langchain.com@evil.example", "http://127.0.0.1", "http://[::1", "http://localhost:99999",
    ],
)  # fmt: skip
async def test_foreign_origin_is_403(origin: str) -> None:
    assert await answer(host="localhost:2024", origin=origin, **JSON) == 403
    assert await answer("websocket", host="localhost:2024", origin=origin) == 1008


async def test_listed_host_is_trusted_with_its_own_origin_only() -> None:
    assert await answer(host="agent.example.com", origin=APP, **JSON) == 200
    assert await answer(host="agent.example.com") == 200
    assert await answer(host="agent.example.com", origin="http://agent.example.com") == 403


@pytest.mark.parametrize(
    ("site", "mode", "dest", "method", "status"),
    [
        ("cross-site", "no-cors", "image", "GET", 403),
        ("same-site", "no-cors", "script", "GET", 403),
        ("cross-site", "navigate", "iframe", "GET", 403),
        ("cross-site", "navigate", "document", "GET", 200),
        ("cross-site", "navigate", "document", "POST", 403),
        ("same-origin", "cors", "empty", "POST", 200),
    ],
)
async def test_foreign_pages_may_link_but_not_embed_or_send(
    site: str, mode: str, dest: str, method: str, status: int
) -> None:
    fetched = {"sec-fetch-site": site, "sec-fetch-mode": mode, "sec-fetch-dest": dest}
    assert await answer(host="localhost:2024", method=method, **fetched) == status


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json; charset=utf-8", 200),
        ("application/merge-patch+json", 200),
        ("text/plain;application/json", 415),
        ("", 415),
    ],
)
async def test_body_that_is_no_json_is_415(kind: str, status: int) -> None:
    typed = {"content-type": kind} if kind else {}
    assert await answer(host="localhost", content_length="2", **typed) == status
    assert await answer(host="localhost", transfer_encoding="chunked", **typed) == status
    assert await answer(host="localhost", content_length="0", **typed) == 200


async def test_internal_calls_of_the_server_pass() -> None:
    assert await answer(root_path="/noauth", host="api") == 200
    assert await answer(root_path="/noauthx", host="api") == 403


# the setting


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("", ("https://smith.langchain.com",)),
        ("https://A.example/, http://b.example:80", ("https://a.example", "http://b.example")),
        ("http://localhost:3000,https://[::1]:8443", ("http://localhost:3000", "https://[::1]:8443")),
    ],
)
def test_allowed_origins_setting(monkeypatch: pytest.MonkeyPatch, given: str, read: tuple[str, ...]) -> None:
    monkeypatch.setenv("ALLOWED_ORIGINS", given)
    assert load_settings(None).allowed_origins == read


@pytest.mark.parametrize(
    "wrong",
    [
        "*", "ftp://a.example", "https://a.example/x", "https://*.example", "https://u@a.example",
    ],
)  # fmt: skip
def test_invalid_origin_in_the_setting_is_explained(wrong: str) -> None:
    with pytest.raises(SettingsError, match="ALLOWED_ORIGINS"):
        load_settings(None, allowed_origins=wrong)


@pytest.mark.parametrize(
    ("method", "path", "kind", "status"),
    [
        ("PUT", "/files/x/content", "application/octet-stream", 200),
        ("PUT", "/files/x/content", "", 415),
        ("POST", "/files/x/content", "application/octet-stream", 415),
        ("PUT", "/threads/x/state", "application/octet-stream", 415),
    ],
)
async def test_only_put_of_a_file_may_send_bytes(method: str, path: str, kind: str, status: int) -> None:
    """A form cannot send PUT, and a foreign script needs a preflight request for PUT and for bytes."""
    sent = {"content_type": kind, "content_length": "1"}
    assert await answer(method=method, path=path, host="localhost", **sent) == status
    assert (
        await answer(method=method, path=path, host="localhost", origin="https://evil.example", **sent) == 403
    )


async def test_request_without_host_is_403() -> None:
    assert await answer() == 403
