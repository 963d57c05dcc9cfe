"""http://search.gateway/: what may be asked of it, and what is answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from agent.config import SettingsError, load_settings
from agent.egress import build_search
from libs.gateway.protocol import Client, ServiceRequest
from libs.gateway.search import Result, SearchError, SearchService, SearchType

FORM = {"content-type": "application/x-www-form-urlencoded"}
JSON = {"content-type": "application/json; charset=utf-8"}
CLIENT = cast("Client", None)  # who asks makes no difference


class Recording:
    """A provider that keeps what it is asked."""

    name = "recording"

    def __init__(self, error: SearchError | None = None) -> None:
        self.asked: list[tuple[str, int, SearchType]] = []
        self._error = error

    async def search(self, query: str, max_results: int, type: SearchType) -> list[Result]:
        self.asked.append((query, max_results, type))
        if self._error:
            raise self._error
        return [Result("Tïdes \ud800", "https://a.example/", "About", "a.example", "2026-01-31T08:00:00Z")]

    async def aclose(self) -> None:
        """There is nothing to close."""


async def ask(
    service: SearchService,
    target: str,
    method: str = "GET",
    body: bytes = b"",
    headers: dict[str, str] | None = None,
) -> tuple[int, Any]:
    path, _, query = target.partition("?")
    named = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    answer = await service(ServiceRequest(CLIENT, method, path, query, named, body))
    assert (b"Content-Type", b"application/json") in answer.headers
    return answer.status, json.loads(answer.body)


@pytest.mark.parametrize(
    ("target", "method", "headers", "body"),
    [
        ("/search?q=tidal+power&max_results=3&type=news", "GET", {}, b""),
        ("/search", "POST", FORM, b"q=tidal+power&max_results=3&type=news"),
        ("/search?max_results=3", "POST", FORM, b"q=tidal+power&type=news"),
        ("/search", "POST", JSON, b'{"q": "tidal power ", "max_results": 3, "type": "news"}'),
    ],
)
async def test_a_search(target: str, method: str, headers: dict[str, str], body: bytes) -> None:
    provider = Recording()
    status, found = await ask(SearchService(provider), target, method, body, headers)
    assert provider.asked == [("tidal power", 3, "news")]
    assert (status, found["provider"]) == (200, "recording")
    [result] = found["results"]
    assert result == {
        **{"title": "Tïdes ?", "url": "https://a.example/", "snippet": "About", "source": "a.example"},
        "published_at": "2026-01-31T08:00:00Z",
    }


async def test_ten_of_the_web_unless_asked_otherwise() -> None:
    provider = Recording()
    await ask(SearchService(provider), "/search?q=x")
    assert provider.asked == [("x", 10, "web")]


@pytest.mark.parametrize(
    ("method", "target", "body", "status", "message"),
    [
        ("GET", "/search", b"", 400, "The query is empty"),
        ("GET", "/search?q=%20", b"", 400, "The query is empty"),
        ("GET", "/search?q=" + "x" * 2001, b"", 400, "2,001 characters"),
        ("GET", "/search?q=x&max_results=0", b"", 400, "a number from 1 to 20, not 0"),
        ("GET", "/search?q=x&max_results=21", b"", 400, "not 21"),
        ("GET", "/search?q=x&max_results=-1", b"", 400, "not -1"),
        ("GET", "/search?q=x&max_results=1e9", b"", 400, "not 1e9"),
        ("GET", "/search?q=x&max_results=%D9%A3", b"", 400, "max_results is a number"),
        ("GET", "/search?q=x&type=images", b"", 400, "type is web, news, academic, not images"),
        ("GET", "/search?" + "&".join(f"a{n}=1" for n in range(101)), b"", 400, "over 100 parameters"),
        ("GET", "/", b"", 404, "has GET /feeds, and /search, not /."),
        ("GET", "/../etc/passwd", b"", 404, "search.gateway has GET /feeds"),
        ("POST", "/feeds", b"", 404, "has GET /feeds"),
        ("DELETE", "/search?q=x", b"", 405, "takes GET and POST"),
        ("POST", "/search", b"[]", 400, "The body is no JSON object"),
        ("POST", "/search", b"{", 400, "The body is no JSON object"),
        ("POST", "/search", b"[" * 60_000, 400, "The body is no JSON object"),
        ("POST", "/search", b'{"q": 5}', 400, "The query is empty"),
        ("POST", "/search", b'{"q": "x", "type": ["web"]}', 400, "type is web, news, academic"),
        ("POST", "/search", b" " * 65_537, 413, "The body is over 64 KB"),
    ],
)
async def test_what_may_not_be_asked(
    method: str, target: str, body: bytes, status: int, message: str
) -> None:
    provider = Recording()
    got, answer = await ask(SearchService(provider), target, method, body, JSON)
    assert (got, list(answer)) == (status, ["error"])
    assert message in answer["error"]
    assert provider.asked == []


async def test_an_error_of_the_provider_is_the_answer() -> None:
    service = SearchService(Recording(SearchError("Set BRAVE_API_KEY.", 503)))
    assert await ask(service, "/search?q=x") == (503, {"error": "Set BRAVE_API_KEY."})


async def test_the_feeds_that_are_set() -> None:
    feeds = ["https://a.example/rss?q={topic}", "https://b.example/feed"]
    assert await ask(SearchService(Recording(), feeds), "/feeds") == (200, {"feeds": feeds})


async def test_what_the_settings_lead_to(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SEARCH_PROVIDER", "BRAVE_API_KEY", "SEARXNG_URL", "NEWS_FEEDS"):
        monkeypatch.delenv(name, raising=False)
    service = build_search(load_settings(None))
    status, answer = await ask(service, "/search?q=x")
    assert (status, "SEARCH_PROVIDER" in answer["error"]) == (503, True)
    monkeypatch.setenv("SEARCH_PROVIDER", "searxng")
    monkeypatch.setenv("NEWS_FEEDS", "https://a.example/rss?q={topic}, https://b.example/feed")
    service = build_search(load_settings(None))
    assert "SEARXNG_URL is not set" in (await ask(service, "/search?q=x"))[1]["error"]
    assert len((await ask(service, "/feeds"))[1]["feeds"]) == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("SEARCH_PROVIDER", value) for value in ("google", "fake", "fake:")),
        *(("SEARXNG_URL", value) for value in ("localhost:8888", "ftp://a.example")),
        *(("NEWS_FEEDS", value) for value in ("a.example/feed", "https://{topic}/", "https://a.example/,x")),
        ("NEWS_FEEDS", "https://a.example/,https://me:s3cr3t-4711@b.example/feed"),
    ],
)
def test_a_setting_that_cannot_be_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=name) as error:
        load_settings(None)
    assert "s3cr3t-4711" not in str(error.value)


async def test_a_key_that_comes_back_is_taken_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BRAVE_API_KEY", 'BSA-"canary"-7f3c9e1d5b')
    monkeypatch.setenv("SEARXNG_URL", "http://user:pass-canary-81@searx.example")
    file = tmp_path / "results.json"
    snippet = 'BSA-"canary"-7f3c9e1d5b QlNBLSJjYW5hcnkiLTdmM2M5ZTFkNWI= pass-canary-81'
    file.write_text(json.dumps([{"title": "T", "url": "http://a.example/", "snippet": snippet}]))
    service = build_search(load_settings(None, search_provider=f"fake:{file}"))
    status, answer = await ask(service, "/search?q=x")
    assert (status, "canary" in str(answer)) == (200, False)
    assert answer["results"][0]["snippet"].count("[REDACTED]") == 3
