"""Search providers against servers that follow, or break, the documented APIs of Brave and SearXNG."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from libs.gateway.search import (
    Brave,
    Fake,
    SearchError,
    SearchProvider,
    SearchType,
    SearXNG,
    brave_provider,
    search_provider,
)
from libs.gateway.search import search_web_api as web_api
from libs.gateway.search.search_contract import iso_utc, plain
from tests.servers.search_servers import KEY, Reply, Server, brave, brave_error, json_reply, searxng, serving


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(brave_provider, "PAUSE", 0.01)


@asynccontextmanager
async def closing(provider: SearchProvider) -> AsyncIterator[SearchProvider]:
    try:
        yield provider
    finally:
        await provider.aclose()


async def error_of(searching: Awaitable[object]) -> SearchError:
    with pytest.raises(SearchError) as failure:
        await searching
    return failure.value


def at_brave(server: Server, key: str = KEY) -> SearchProvider:
    return Brave(key, url=f"{server.url}/res/v1")


async def test_results_of_brave() -> None:
    with serving(brave) as server:
        async with closing(at_brave(server)) as provider:
            first, *more = await provider.search("tidal power & <cost>", 3, "web")
            news = await provider.search("tides", 20, "news")
            for type in ("web", "news"):
                assert await provider.search("nothing", 5, type) == []
    assert [result.url for result in (first, *more)] == [f"https://www{n}.example/tides" for n in (1, 2, 3)]
    assert (first.title, first.snippet) == ("Tides & power 1", "Costs < 100 EUR per MWh, 1")
    assert (first.source, first.published_at) == ("www1.example", "2026-01-31T08:00:00Z")
    assert (len(news), {result.source for result in news}) == (20, {"Harbour Times"})
    web, other, *_ = server.asked
    assert (web.path, web.query["q"], web.query["count"]) == (
        *("/res/v1/web/search", "tidal power & <cost>", "3"),
    )
    assert other.path == "/res/v1/news/search"


async def test_query_that_brave_cannot_answer_is_not_sent() -> None:
    with serving(brave) as server:
        async with closing(at_brave(server)) as provider:
            error = await error_of(provider.search("tides", 5, "academic"))
            assert (error.status, "SEARCH_PROVIDER=searxng" in str(error)) == (400, True)
            for query in ("x" * 401, "x " * 51):
                error = await error_of(provider.search(query, 5, "web"))
                assert (error.status, "400 characters and 50 words" in str(error)) == (400, True)
    assert server.asked == []


@pytest.mark.parametrize(
    ("reply", "status", "message"),
    [
        (brave_error("SUBSCRIPTION_TOKEN_INVALID", 422), 502, "BRAVE_API_KEY and its subscription"),
        (Reply(401), 502, "Brave refuses the key (HTTP 401): ask the person to check BRAVE_API_KEY"),
        (
            brave_error("QUOTA_LIMITED", 429),
            429,
            "The quota of the plan of BRAVE_API_KEY is used up (HTTP 429, QUOTA_LIMITED).",
        ),
        (brave_error("VALIDATION", 422), 400, "Brave refuses this query (HTTP 422, VALIDATION)"),
        (Reply(302, b"", {"Location": "http://127.0.0.1:9/stolen"}), 502, "an error (HTTP 302)"),
        (Reply(200, b"<html>"), 502, "no JSON object: is it what BRAVE_API_KEY is meant for?"),
        (json_reply({}), 502, "something else than search results"),
        (json_reply({"type": "search", "web": {"results": 3}}), 502, "no list of results"),
        (Reply(200, b" " * (6 * 2**20)), 502, "over 5 MB"),
        (Reply(200, b"no gzip", {"Content-Encoding": "gzip"}), 502, "cannot be reached (DecodingError)"),
    ],
)
async def test_errors_of_brave(reply: Reply, status: int, message: str) -> None:
    with serving(reply) as server:
        async with closing(at_brave(server)) as provider:
            error = await error_of(provider.search("tides", 5, "web"))
    assert message in str(error)
    assert error.status == status
    assert KEY not in str(error)
    assert len(server.asked) == (2 if status == 429 else 1)


async def test_invalid_results_are_left_out() -> None:
    page = {"title": "A", "url": "https://a.example/", "description": None}
    odd = [
        *(None, 3, {}, {"url": 5}, {"url": "javascript:alert(1)"}, {"url": "file:///etc/passwd"}),
        *(page, page, {"title": None, "url": "http://[bad"}, {"url": "http://b.example/x"}),
    ]
    with serving(json_reply({"type": "search", "web": {"results": odd}})) as server:
        async with closing(at_brave(server)) as provider:
            results = await provider.search("tides", 5, "web")
    assert [(result.title, result.url, result.snippet, result.source) for result in results] == [
        ("A", "https://a.example/", "", "a.example"),
        ("http://b.example/x", "http://b.example/x", "", "b.example"),
    ]


async def test_request_over_the_rate_limit_is_repeated_once() -> None:
    with serving(brave_error("RATE_LIMITED", 429), brave) as server:
        async with closing(at_brave(server)) as provider:
            assert len(await provider.search("tides", 5, "web")) == 5


@pytest.mark.parametrize(
    ("path", "type", "category"),
    [("", "web", "general"), ("/", "news", "news"), ("/search", "academic", "science")],
)
async def test_results_of_searxng(path: str, type: SearchType, category: str) -> None:
    with serving(searxng) as server:
        async with closing(SearXNG(server.url + path)) as provider:
            results = await provider.search("tides", 4, type)
            assert await provider.search("nothing", 4, "web") == []
    assert server.asked[0].query == {"q": "tides", "format": "json", "categories": category}
    assert [result.url for result in results] == [f"https://host{n}.example/tides" for n in (1, 2, 3, 4)]
    assert [result.published_at for result in results[:2]] == ["2026-01-31T08:00:00Z", None]
    assert results[0].source == ("Journal of Tides" if type == "academic" else "host1.example")


@pytest.mark.parametrize(
    ("reply", "status", "message"),
    [
        (Reply(403), 502, "does not give JSON: ask the person to list json under search.formats"),
        (Reply(401), 502, "wants a password"),
        (Reply(429), 429, "limiter of the instance at SEARXNG_URL"),
        (Reply(301, b"", {"Location": "https://search.example/x"}), 502, "leads on to search.example"),
        (Reply(404), 502, "SEARXNG_URL is not a SearXNG instance"),
        (json_reply({"results": None}), 502, "no list of results"),
        (
            json_reply(
                {"results": [], "unresponsive_engines": [["google", "timeout"], ["bing", "CAPTCHA"], 3]}
            ),
            502,
            "None of the engines behind SEARXNG_URL answered (google: timeout, bing: CAPTCHA)",
        ),
    ],
)
async def test_errors_of_searxng(reply: Reply, status: int, message: str) -> None:
    with serving(reply) as server:
        async with closing(SearXNG(server.url.replace("//", "//user:canary-password@"))) as provider:
            error = await error_of(provider.search("tides", 5, "web"))
    assert message in str(error)
    assert error.status == status
    assert "canary" not in str(error)


async def test_slow_provider_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_api, "TIMEOUT", 0.3)
    with serving(Reply(200, b" " * 1_000, pause=0.05)) as server:
        async with closing(SearXNG(server.url)) as provider:
            error = await asyncio.wait_for(error_of(provider.search("tides", 5, "web")), 30)
    assert (error.status, str(error)) == (504, "SearXNG did not answer within 0.3 seconds.")


@pytest.mark.parametrize("name", ["searxng", "brave"])
async def test_unreachable_provider_is_an_error(name: str) -> None:
    with serving(Reply()) as server:
        url = server.url
    made = Brave("canary", url=url) if name == "brave" else SearXNG(url.replace("//", "//user:canary@"))
    async with closing(made) as provider:
        error = await error_of(provider.search("tides", 5, "web"))
    assert error.status == 502
    assert "cannot be reached (ConnectError): look at " in str(error)
    assert "canary" not in str(error)


async def test_fake_provider_reads_a_file_and_warns(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "results.json"
    with caplog.at_level(logging.WARNING):
        provider = search_provider(f"fake:{file}")
    assert "not from the web" in caplog.text
    assert isinstance(provider, Fake)
    error = await error_of(provider.search("x", 5, "web"))
    assert (error.status, "SEARCH_PROVIDER=fake:" in str(error)) == (503, True)
    everywhere = {"title": "A", "url": "http://a.example/"}
    news = {"title": "B", "url": "http://b.example/", "type": "news", "source": "S"}
    news["published_at"] = "2026-01-31"
    tides = {"title": "C", "url": "http://c.example/", "snippet": "s", "when": "tide"}
    file.write_text(json.dumps([everywhere, news, tides]))
    assert [result.title for result in await provider.search("Tides", 5, "web")] == ["A", "C"]
    assert [result.title for result in await provider.search("x", 5, "news")] == ["A", "B"]
    assert (await provider.search("x", 5, "news"))[1].published_at == "2026-01-31T00:00:00Z"
    assert len(await provider.search("tides", 1, "web")) == 1
    file.write_text("{}")
    assert "not a list" in str(await error_of(provider.search("x", 5, "web")))


async def test_chosen_provider_and_missing_variables() -> None:
    for chosen, variables in (
        (None, ["SEARCH_PROVIDER", "BRAVE_API_KEY", "SEARXNG_URL"]),
        ("brave", ["SEARCH_PROVIDER", "BRAVE_API_KEY"]),
        ("searxng", ["SEARCH_PROVIDER", "SEARXNG_URL"]),
    ):
        async with closing(search_provider(chosen)) as provider:
            error = await error_of(provider.search("x", 5, "web"))
        assert error.status == 503
        assert [name for name in variables if name not in str(error)] == []
    async with closing(search_provider("searxng", searxng_url="http://127.0.0.1")) as provider:
        assert isinstance(provider, SearXNG)


def test_times_and_text_are_normalized() -> None:
    for text in ("2026-01-31T08:00:00", "2026-01-31T08:00:00Z", "2026-01-31T09:30:00.123+01:30"):
        assert iso_utc(text) == "2026-01-31T08:00:00Z"
    assert iso_utc("2026-01-31") == "2026-01-31T00:00:00Z"
    for odd in ("", "yesterday", "2026-13-01", "0001-01-01T00:00:00+14:00", None, 5):
        assert iso_utc(odd) is None
    assert plain("a <strong>b</strong>\n&lt;i&gt; c < d > e &#x27;") == "a b <i> c < d > e '"
    assert plain(None) == plain(3) == ""
