"""The skills `web` and `news` through the gateway's own proxy, with nothing between but loopback."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from search_servers import KEY, Reply, Server, brave, brave_error, searxng, serving

from libs.gateway.addresses import Address
from libs.gateway.limits import ClientLimits
from libs.gateway.proxy import Client, Proxy
from libs.gateway.rules import Rules
from libs.gateway.search import Brave, SearchProvider, SearchService, SearXNG, search_provider

ROOT = Path(__file__).parents[2]
FEED = "http://feeds.example/rss?q={topic}"

Start = Callable[..., Any]


@pytest.fixture
async def start(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Start]:
    """Starts a gateway with a provider; what is then proxied in this process goes through it."""
    running: list[tuple[asyncio.Server, SearchService]] = []

    async def start(
        provider: SearchProvider, *, allow: tuple[str, ...] = (), site: Server | None = None
    ) -> Any:
        async def resolve(_host: str, _port: int) -> list[Address]:
            assert site is not None
            return [Address("127.0.0.1", site.server_port)]

        service = SearchService(provider, [FEED] if allow else [])
        proxy = Proxy(rules=Rules.parse(allow), resolve=resolve, services={"search.gateway": service})
        client = Client("test", "", ClientLimits())
        server = await asyncio.start_server(lambda r, w: proxy.serve(r, w, client), "127.0.0.1", 0)
        running.append((server, service))
        port = server.sockets[0].getsockname()[1]
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.setenv(name, "localhost,127.0.0.1,::1")
        monkeypatch.syspath_prepend(str(ROOT))
        return importlib.import_module("skills.web")

    yield start
    for server, service in running:
        server.close()
        await server.wait_closed()
        await service.aclose()


async def test_brave(start: Start) -> None:
    with serving(brave) as server:
        web = await start(Brave(KEY, url=f"{server.url}/res/v1"))
        hits = await asyncio.to_thread(web.search, "tides & ünder", 3)
        with pytest.raises(ValueError, match="Brave has no academic search"):
            await asyncio.to_thread(partial(web.search, "tides", type="academic"))
    assert [hit["source"] for hit in hits] == ["www1.example", "www2.example", "www3.example"]
    assert server.asked[0].query["q"] == "tides & ünder"
    assert KEY not in json.dumps(hits)


async def test_searxng(start: Start) -> None:
    with serving(searxng) as server:
        web = await start(SearXNG(server.url))
        hits = await asyncio.to_thread(partial(web.search, "tides", type="academic"))
    assert len(hits) == 10
    assert hits[0]["source"] == "Journal of Tides"


async def test_what_is_wrong_reaches_the_model(start: Start) -> None:
    web = await start(search_provider(None))
    with pytest.raises(ConnectionError, match="set SEARCH_PROVIDER to brave, with BRAVE_API_KEY"):
        await asyncio.to_thread(web.search, "tides")
    with serving(brave_error("SUBSCRIPTION_TOKEN_INVALID", 422)) as server:
        await start(Brave("wrong", url=f"{server.url}/res/v1"))
        with pytest.raises(ConnectionError, match="ask the person to check BRAVE_API_KEY"):
            await asyncio.to_thread(web.search, "tides")


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_host_that_is_not_allowed(start: Start, scheme: str) -> None:
    web = await start(search_provider(None))
    with pytest.raises(ConnectionError, match=r"403 EGRESS_ALLOW is empty: example\.org is refused"):
        await asyncio.to_thread(web.scrape, f"{scheme}://example.org/x")
    await start(search_provider(None), allow=("https://other.example",))
    with pytest.raises(ConnectionError, match=r"403 example\.org:\d+ is not in EGRESS_ALLOW: ask the person"):
        await asyncio.to_thread(web.scrape, f"{scheme}://example.org/x")


async def test_a_page_and_a_redirect_to_a_host_that_is_not_allowed(start: Start) -> None:
    replies = [
        Reply(200, b"It rises.", {"Content-Type": "text/plain"}),
        Reply(302, b"", {"Location": "http://elsewhere.example/"}),
    ]
    with serving(*replies) as site:
        web = await start(search_provider(None), allow=("http://tides.example",), site=site)
        page = await asyncio.to_thread(web.scrape, "http://tides.example/a.txt")
        assert page["text"] == "It rises."
        with pytest.raises(ConnectionError, match=r"elsewhere\.example:80 is not in EGRESS_ALLOW"):
            await asyncio.to_thread(web.scrape, "http://tides.example/b")
    assert [asked.path for asked in site.asked] == ["/a.txt", "/b"]


async def test_feeds_are_those_that_are_set(start: Start) -> None:
    with serving(Reply(404)) as site:
        await start(search_provider(None), allow=("http://feeds.example",), site=site)
        news = importlib.import_module("skills.news")
        with pytest.raises(ConnectionError, match=r"no feed of NEWS_FEEDS can be read.*404"):
            await asyncio.to_thread(news.news, "tidal power")
    assert site.asked[0].query == {"q": "tidal power"}
