"""Search providers against servers that keep Brave's and SearXNG's documented contracts, and break them."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from search_servers import KEY, Reply, Server, brave, brave_error, json_reply, searxng, serving

from libs.gateway.search import Brave, Fake, SearchError, SearchProvider, SearXNG, search_provider, web_api
from libs.gateway.search.provider import iso_utc, plain


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


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


async def test_brave_web() -> None:
    with serving(brave) as server:
        async with closing(at_brave(server)) as provider:
            results = await provider.search("tidal power & <cost>", 3, "web")
    assert [result.url for result in results] == [f"https://www{n}.example/tides" for n in (1, 2, 3)]
    first = results[0]
    assert (first.title, first.snippet) == ("Tides & power 1", "Costs < 100 EUR per MWh, 1")
    assert (first.source, first.published_at) == ("www1.example", "2026-01-31T08:00:00Z")
    [asked] = server.asked
    assert (asked.path, asked.query["q"], asked.query["count"]) == (
        "/res/v1/web/search",
        "tidal power & <cost>",
        "3",
    )


async def test_brave_news() -> None:
    with serving(brave) as server:
        async with closing(at_brave(server)) as provider:
            results = await provider.search("tides", 20, "news")
    assert len(results) == 20
    assert {result.source for result in results} == {"Harbour Times"}
    assert server.asked[0].path == "/res/v1/news/search"


@pytest.mark.parametrize("type", ["web", "news"])
async def test_brave_finds_nothing(type: str) -> None:
    with serving(brave) as server:
        async with closing(at_brave(server)) as provider:
            assert await provider.search("nothing", 5, type) == []  # type: ignore[arg-type]


async def test_brave_has_nothing_academic_and_asks_nobody() -> None:
    with serving(brave) as server:
        async with closing(at_brave(server)) as provider:
            error = await error_of(provider.search("tides", 5, "academic"))
    assert error.status == 400
    assert 'type="web"' in str(error)
    assert "SEARCH_PROVIDER=searxng" in str(error)
    assert server.asked == []


@pytest.mark.parametrize("query", ["x" * 401, "x " * 51])
async def test_brave_takes_no_longer_query(query: str) -> None:
    with serving(brave) as server:
        async with closing(at_brave(server)) as provider:
            error = await error_of(provider.search(query, 5, "web"))
    assert (error.status, server.asked) == (400, [])
    assert "400 characters and 50 words" in str(error)


@pytest.mark.parametrize(
    ("reply", "status", "message"),
    [
        (brave_error("SUBSCRIPTION_TOKEN_INVALID", 422), 502, "BRAVE_API_KEY and its subscription"),
        (brave_error("SUBSCRIPTION_NOT_FOUND", 404), 502, "HTTP 404, SUBSCRIPTION_NOT_FOUND"),
        (Reply(401), 502, "Brave refuses the key (HTTP 401): ask the person to check BRAVE_API_KEY"),
        (Reply(403), 502, "BRAVE_API_KEY"),
        (
            brave_error("QUOTA_LIMITED", 429, X_RateLimit_Remaining="1, 0", X_RateLimit_Reset="1, 1419704"),
            429,
            "The quota of the plan of BRAVE_API_KEY is used up (HTTP 429, QUOTA_LIMITED). "
            "Try again in 1,419,704 s.",
        ),
        (Reply(429), 429, "The rate limit of the plan of BRAVE_API_KEY is used up (HTTP 429)."),
        (brave_error("VALIDATION", 422), 400, "Brave refuses this query (HTTP 422, VALIDATION)"),
        (Reply(503, b"<html>down"), 502, "an error (HTTP 503)"),
        (Reply(302, b"", {"Location": "http://127.0.0.1:9/stolen"}), 502, "an error (HTTP 302)"),
        (Reply(200, b"<html>"), 502, "no JSON object: is it what BRAVE_API_KEY is meant for?"),
        (Reply(200, b"[1]"), 502, "no JSON object"),
        (Reply(200, b"[" * 100_000), 502, "no JSON object"),
        (json_reply({}), 502, "something else than search results"),
        (json_reply({"type": "search", "web": {"results": 3}}), 502, "no list of results"),
        (json_reply({"type": "search", "web": None}), 502, "no list of results"),
        (Reply(200, b" " * (6 * 2**20)), 502, "over 5 MB"),
        (Reply(200, b"no gzip", {"Content-Encoding": "gzip"}), 502, "its compression is broken"),
    ],
)
async def test_what_brave_may_answer(reply: Reply, status: int, message: str) -> None:
    with serving(reply) as server:
        async with closing(at_brave(server)) as provider:
            error = await error_of(provider.search("tides", 5, "web"))
    assert message in str(error)
    assert error.status == status
    assert KEY not in str(error)
    assert len(server.asked) == 1


async def test_results_that_are_none_are_left_out() -> None:
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


async def test_a_limit_of_a_second_is_waited_for_once() -> None:
    limited = brave_error("RATE_LIMITED", 429, X_RateLimit_Remaining="0, 900", X_RateLimit_Reset="1, 1419704")
    with serving(limited, brave) as server:
        async with closing(at_brave(server)) as provider:
            assert len(await provider.search("tides", 5, "web")) == 5
    with serving(limited) as server:
        async with closing(at_brave(server)) as provider:
            error = await error_of(provider.search("tides", 5, "web"))
    assert (error.status, len(server.asked)) == (429, 2)
    assert "The rate limit of the plan of BRAVE_API_KEY is used up" in str(error)


async def test_a_wrong_key() -> None:
    with serving(brave) as server:
        async with closing(at_brave(server, "wrong")) as provider:
            error = await error_of(provider.search("tides", 5, "web"))
    assert "Brave refuses the key (HTTP 422, SUBSCRIPTION_TOKEN_INVALID)" in str(error)
    with serving(lambda asked: brave(type(asked)(asked.path, asked.query, {}))) as server:
        async with closing(at_brave(server)) as provider:
            error = await error_of(provider.search("tides", 5, "web"))
    assert "Brave refuses the key (HTTP 422, VALIDATION)" in str(error)


@pytest.mark.parametrize(
    ("type", "category"), [("web", "general"), ("news", "news"), ("academic", "science")]
)
@pytest.mark.parametrize("path", ["", "/", "/search"])
async def test_searxng(type: str, category: str, path: str) -> None:
    with serving(searxng) as server:
        async with closing(SearXNG(server.url + path)) as provider:
            results = await provider.search("tides", 4, type)  # type: ignore[arg-type]
            assert await provider.search("nothing", 4, "web") == []
    assert server.asked[0].query == {"q": "tides", "format": "json", "categories": category}
    assert [result.url for result in results] == [f"https://host{n}.example/tides" for n in (1, 2, 3, 4)]
    assert [result.published_at for result in results[:2]] == ["2026-01-31T08:00:00Z", None]
    assert results[0].source == ("Journal of Tides" if type == "academic" else "host1.example")


@pytest.mark.parametrize(
    ("reply", "status", "message"),
    [
        (Reply(403), 502, "does not give JSON (HTTP 403): ask the person to list json under search.formats"),
        (Reply(401), 502, "wants a password"),
        (Reply(429), 429, "limiter of the instance at SEARXNG_URL"),
        (Reply(301, b"", {"Location": "https://search.example/x"}), 502, "leads on to search.example"),
        (Reply(302), 502, "SEARXNG_URL leads on to another place (HTTP 302)"),
        (Reply(404), 502, "There is no SearXNG at SEARXNG_URL"),
        (Reply(500), 502, "answers with an error (HTTP 500)"),
        (Reply(200, b"<html>"), 502, "no JSON object: is it what SEARXNG_URL is meant for?"),
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
async def test_what_searxng_may_answer(reply: Reply, status: int, message: str) -> None:
    with serving(reply) as server:
        async with closing(SearXNG(server.url.replace("//", "//user:canary-password@"))) as provider:
            error = await error_of(provider.search("tides", 5, "web"))
    assert message in str(error)
    assert error.status == status
    assert "canary" not in str(error)


@pytest.mark.parametrize("pause", [0.05, 5])
async def test_a_provider_that_is_slow(pause: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow to begin, or a byte at a time: both end."""
    assert web_api.TIMEOUT == 15
    monkeypatch.setattr(web_api, "TIMEOUT", 0.3)
    with serving(Reply(200, b" " * 100, pause=pause)) as server:
        async with closing(SearXNG(server.url)) as provider:
            error = await asyncio.wait_for(error_of(provider.search("tides", 5, "web")), 3)
    assert (error.status, str(error)) == (504, "SearXNG did not answer within 0.3 seconds.")


@pytest.mark.parametrize(
    "make", [lambda url: SearXNG(url.replace("//", "//user:canary@")), lambda url: Brave("canary", url=url)]
)
async def test_a_provider_that_is_not_there(make: Callable[[str], SearchProvider]) -> None:
    with serving(Reply()) as server:
        url = server.url
    async with closing(make(url)) as provider:
        error = await error_of(provider.search("tides", 5, "web"))
    assert error.status == 502
    assert "cannot be reached (no connection): look at " in str(error)
    assert "canary" not in str(error)


async def test_the_fake_plays_a_file_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "results.json"
    with caplog.at_level(logging.WARNING):
        provider = search_provider(f"fake:{file}")
    assert "not from the web" in caplog.text
    assert isinstance(provider, Fake)
    error = await error_of(provider.search("x", 5, "web"))
    assert (error.status, "SEARCH_PROVIDER=fake:" in str(error)) == (503, True)
    everywhere = {"title": "A", "url": "http://a.example/"}
    news = {
        "title": "B",
        "url": "http://b.example/",
        "type": "news",
        "source": "S",
        "published_at": "2026-01-31",
    }
    tides = {"title": "C", "url": "http://c.example/", "snippet": "s", "when": "tide"}
    file.write_text(json.dumps([everywhere, news, tides]))
    assert [result.title for result in await provider.search("Tides", 5, "web")] == ["A", "C"]
    assert [result.title for result in await provider.search("x", 5, "news")] == ["A", "B"]
    assert (await provider.search("x", 5, "news"))[1].published_at == "2026-01-31T00:00:00Z"
    assert len(await provider.search("tides", 1, "web")) == 1
    file.write_text("{}")
    assert "no list" in str(await error_of(provider.search("x", 5, "web")))
    file.write_text("[")
    assert "cannot be read as JSON" in str(await error_of(provider.search("x", 5, "web")))


@pytest.mark.parametrize(
    ("chosen", "variables"),
    [
        (None, ["SEARCH_PROVIDER", "BRAVE_API_KEY", "SEARXNG_URL"]),
        ("brave", ["SEARCH_PROVIDER", "BRAVE_API_KEY"]),
        ("searxng", ["SEARCH_PROVIDER", "SEARXNG_URL"]),
    ],
)
async def test_what_is_missing_is_named(chosen: str | None, variables: list[str]) -> None:
    async with closing(search_provider(chosen)) as provider:
        error = await error_of(provider.search("x", 5, "web"))
    assert error.status == 503
    assert [name for name in variables if name not in str(error)] == []


async def test_the_provider_that_is_chosen() -> None:
    async with (
        closing(search_provider("brave", brave_api_key="k")) as one,
        closing(search_provider("searxng", searxng_url="http://127.0.0.1")) as other,
    ):
        assert (one.name, other.name) == ("brave", "searxng")
    for wrong in ("google", "fake:", "fake"):
        with pytest.raises(ValueError, match="brave, searxng or fake:<file>"):
            search_provider(wrong)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-01-31T08:00:00", "2026-01-31T08:00:00Z"),
        ("2026-01-31T08:00:00Z", "2026-01-31T08:00:00Z"),
        ("2026-01-31T09:30:00.123+01:30", "2026-01-31T08:00:00Z"),
        ("2026-01-31", "2026-01-31T00:00:00Z"),
        *((odd, None) for odd in ("", "yesterday", "2026-13-01", "0001-01-01T00:00:00+14:00", None, 5)),
    ],
)
def test_times(text: object, time: str | None) -> None:
    assert iso_utc(text) == time


def test_text_is_plain() -> None:
    assert plain("a <strong>b</strong>\n&lt;i&gt; c < d > e &#x27;") == "a b <i> c < d > e '"
    assert plain(None) == plain(3) == ""
