"""http://search.gateway/: requests, answers and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from agent.config import SettingsError, load_settings
from agent.parts.egress_gateway import build_search
from libs.gateway.gateway_protocol import Client, ServiceRequest
from libs.gateway.search import Result, SearchError, SearchProvider, SearchService, SearchType

CLIENT = cast("Client", None)  # not used


class Recording(SearchProvider):
    """A provider that records its queries."""

    name = "recording"

    def __init__(self, error: SearchError | None = None) -> None:
        self.asked: list[tuple[str, int, SearchType]] = []
        self._error = error

    async def search(self, query: str, max_results: int, type: SearchType) -> list[Result]:
        self.asked.append((query, max_results, type))
        if self._error:
            raise self._error
        return [Result("Tïdes \ud800", "https://a.example/", "About", "a.example", "2026-01-31T08:00:00Z")]


async def ask(service: SearchService, target: str, method: str = "GET") -> tuple[int, Any]:
    path, _, query = target.partition("?")
    answer = await service(ServiceRequest(CLIENT, method, path, query, [], b""))
    assert isinstance(answer.body, bytes)
    return answer.status, json.loads(answer.body)


async def test_query_in_the_url() -> None:
    provider = Recording()
    await ask(SearchService(provider), "/search?q=x")
    status, found = await ask(SearchService(provider), "/search?q=tidal+power%20&max_results=3&type=news")
    assert provider.asked == [("x", 10, "web"), ("tidal power", 3, "news")]
    assert (status, found["provider"]) == (200, "recording")
    [result] = found["results"]
    assert result == {
        **{"title": "Tïdes ?", "url": "https://a.example/", "snippet": "About", "source": "a.example"},
        "published_at": "2026-01-31T08:00:00Z",
    }


@pytest.mark.parametrize(
    ("method", "target", "status", "message"),
    [
        ("GET", "/search?q=%20", 400, "The query is empty"),
        ("GET", "/search?q=" + "x" * 2001, 400, "2,001 characters"),
        ("GET", "/search?q=x&max_results=21", 400, "not 21"),
        ("GET", "/search?q=x&max_results=%D9%A3", 400, "max_results is a number"),
        ("GET", "/search?q=x&type=images", 400, "type is web, news, academic, not images"),
        ("GET", "/search?" + "&".join(f"a{n}=1" for n in range(101)), 400, "over 100 parameters"),
        ("GET", "/", 404, "has GET /feeds and GET /search, not GET /."),
        ("DELETE", "/search?q=x", 404, "not DELETE /search."),
    ],
)
async def test_invalid_requests(method: str, target: str, status: int, message: str) -> None:
    provider = Recording()
    got, answer = await ask(SearchService(provider), target, method)
    assert (got, list(answer)) == (status, ["error"])
    assert message in answer["error"]
    assert provider.asked == []


async def test_provider_errors_and_feeds() -> None:
    feeds = ["https://a.example/rss?q={topic}", "https://b.example/feed"]
    service = SearchService(Recording(SearchError("Set BRAVE_API_KEY.", 503)), feeds)
    assert await ask(service, "/search?q=x") == (503, {"error": "Set BRAVE_API_KEY."})
    assert await ask(service, "/feeds") == (200, {"feeds": feeds})


async def test_service_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
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
        *(("SEARCH_PROVIDER", value) for value in ("google", "fake:")),
        *(("SEARXNG_URL", value) for value in ("localhost:8888", "ftp://a.example")),
        *(("NEWS_FEEDS", value) for value in ("a.example/feed", "https://{topic}/")),
        ("NEWS_FEEDS", "https://a.example/,https://me:s3cr3t-4711@b.example/feed"),
    ],
)
def test_invalid_setting_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=name) as error:
        load_settings(None)
    assert "s3cr3t-4711" not in str(error.value)


async def test_key_in_an_answer_is_redacted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BRAVE_API_KEY", 'BSA-"canary"-7f3c9e1d5b')
    monkeypatch.setenv("SEARXNG_URL", "http://user:pass-canary-81@searx.example")
    file = tmp_path / "results.json"
    snippet = 'BSA-"canary"-7f3c9e1d5b QlNBLSJjYW5hcnkiLTdmM2M5ZTFkNWI= pass-canary-81'
    file.write_text(json.dumps([{"title": "T", "url": "http://a.example/", "snippet": snippet}]))
    service = build_search(load_settings(None, search_provider=f"fake:{file}"))
    status, answer = await ask(service, "/search?q=x")
    assert (status, "canary" in str(answer)) == (200, False)
    assert answer["results"][0]["snippet"].count("[REDACTED]") == 3
