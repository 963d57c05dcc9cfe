"""`skills.web` through a proxy on loopback: requests and errors.

`test_web_skills.py` shows what HTML, PDF files and feeds say, with the libraries of the sandbox.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers.web_site import REFUSAL, Site

ROOT = Path(__file__).parents[3]
HIT = {"title": "Tides", "url": "http://files.example/tides", "snippet": "About", "source": "files.example"}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    server = Site(tmp_path)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{server.server_port}")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "localhost,127.0.0.1,::1")
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def web(site: Site, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("skills.web")


@pytest.fixture
def fetch(web: Any) -> Any:
    return importlib.import_module("skills.web._fetch")


def put(site: Site, name: str, content: bytes | str | list[Any], kind: str = "text/plain") -> str:
    data = json.dumps(content) if isinstance(content, list) else content
    (site.folder / name).write_bytes(data.encode() if isinstance(data, str) else data)
    return f"http://files.example/{name}?type={kind}"


class TestSearch:
    def test_results_of_the_gateway_are_returned(
        self, web: Any, site: Site, capsys: pytest.CaptureFixture[str]
    ) -> None:
        put(site, "search.json", [HIT | {"published_at": "2026-01-31T08:00:00Z"}, HIT | {"type": "news"}])
        assert web.search("tides") == [HIT]
        assert web.search("tides & $(touch /tmp/x) 'ü", 3, "news") == [HIT]
        assert web.search("tides", type="academic") == []
        assert capsys.readouterr().err == ""
        assert site.asked[1] == (
            "http://search.gateway/search?q=tides+%26+%24%28touch+%2Ftmp%2Fx%29+%27%C3%BC&max_results=3&type=news"
        )
        (hit,) = web.search("made up")
        assert (hit.title, hit.source, dict(hit)) == (hit["title"], "files.example", HIT)
        assert dataclasses.asdict(hit) == json.loads(json.dumps([hit]))[0] == HIT
        assert "SEARCH_PROVIDER=fake, so these results are not from the web" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"query": " "}, "the query is empty"),
            ({"max_results": 0}, "1 to 20, not 0"),
            ({"type": "images"}, "type is web, news, academic, not 'images'"),
        ],
    )
    def test_wrong_argument_is_refused(
        self, web: Any, site: Site, arguments: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(ValueError, match=message):
            web.search(**{"query": "x", **arguments})
        assert site.asked == []

    def test_error_of_the_gateway_is_passed_on(self, web: Any, site: Site) -> None:
        with pytest.raises(
            ConnectionError, match="No search provider is set: ask the person to set SEARCH_PROV"
        ):
            web.search("tides")
        put(site, "search.json", [])
        with pytest.raises(ValueError, match="Brave has no academic search"):
            web.search("not allowed")
        # The model reads the same in the skill, before it asks.
        assert (
            '`type="academic"` needs SEARCH_PROVIDER=searxng.' in (ROOT / "skills/web/SKILL.md").read_text()
        )


class TestScrape:
    @pytest.mark.parametrize(
        ("kind", "markdown"),
        [("text/plain", "a *b*\n"), ("", "a *b*\n"), ("application/ld%2Bjson", "```json\na *b*\n```\n")],
    )
    def test_text_by_content_type(self, web: Any, site: Site, kind: str, markdown: str) -> None:
        url = put(site, "notes", "a *b*\r\n", kind)
        page = web.scrape(url)
        assert page == {"url": url, "title": "notes", "markdown": markdown, "text": "a *b*\n"}
        assert (page.url, page.title, page.markdown, page.text) == tuple(page.values())

    @pytest.mark.parametrize(
        ("content", "kind"),
        [
            ("Grüße €".encode("cp1252"), "text/plain; charset=ISO-8859-1"),
            (b"\xef\xbb\xbf" + "Grüße €".encode(), "text/plain; charset=latin-1"),
            (
                '<?xml version="1.0" encoding="iso-8859-15"?><a>Grüße €</a>'.encode("iso-8859-15"),
                "application/xml",
            ),
        ],
    )
    def test_encodings(self, web: Any, site: Site, content: bytes, kind: str) -> None:
        assert "Grüße €" in web.scrape(put(site, "a", content, kind.replace(";", "%3B")))["text"]

    def test_redirects(self, web: Any, site: Site) -> None:
        url = put(site, "a", "text")
        assert web.scrape(f"http://odd.example/to?url={url}")["url"] == url
        with pytest.raises(ConnectionError, match="over 10 redirects"):
            web.scrape("http://odd.example/loop")
        assert len(site.asked) < 15
        with pytest.raises(ConnectionError, match="neither http nor https"):
            web.scrape("http://odd.example/to?url=file:///etc/passwd")
        with pytest.raises(ConnectionError, match=rf"403 elsewhere.example:443 {REFUSAL}$"):
            web.scrape("http://odd.example/to?url=https://elsewhere.example/x")

    @pytest.mark.parametrize("scheme", ["http", "https"])
    def test_refusal_names_host_and_setting(self, web: Any, scheme: str) -> None:
        with pytest.raises(ConnectionError) as error:
            web.scrape(f"{scheme}://example.org/secret")
        port = {"http": 80, "https": 443}[scheme]
        assert str(error.value) == f"{scheme}://example.org/secret: 403 example.org:{port} {REFUSAL}"
        assert error.value.__suppress_context__ or error.value.__context__ is None

    @pytest.mark.parametrize("status", [404, 500])
    def test_error_status_of_the_site(self, web: Any, status: int) -> None:
        with pytest.raises(ConnectionError, match=rf"http://odd.example/status/{status}: {status} \w+"):
            web.scrape(f"http://odd.example/status/{status}")
        with pytest.raises(ConnectionError, match="404 Not Found: nothing here"):
            web.scrape("http://files.example/none")

    @pytest.mark.parametrize(
        ("content", "kind"),
        [(b"\x89PNG\r\n\x1a\n\0\0", "image/png"), (b"\0\0\0", "text/plain"), (b"words", "video/mp4")],
    )
    def test_content_without_text_is_refused(self, web: Any, site: Site, content: bytes, kind: str) -> None:
        with pytest.raises(ValueError, match=f"is {kind}, {len(content)} bytes: no text; save it with curl"):
            web.scrape(put(site, "a", content, kind))

    @pytest.mark.parametrize("what", ["endless", "bomb"])
    def test_too_large_answer_is_refused(self, web: Any, what: str) -> None:
        with pytest.raises(ValueError, match="is over 10 MB: save it with curl"):
            web.scrape(f"http://odd.example/{what}")

    def test_endless_answer_is_stopped(self, web: Any, fetch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        assert fetch.MAX_SECONDS == 60
        monkeypatch.setattr(fetch, "MAX_SECONDS", 0.3)
        began = time.monotonic()
        with pytest.raises(TimeoutError, match="not all there"):
            web.scrape("http://odd.example/drip")
        assert time.monotonic() - began < 5

    @pytest.mark.parametrize("url", ["", "example.org", "file:///etc/passwd", "https:///x", "-o/x", 5])
    def test_wrong_url_is_refused(self, web: Any, site: Site, url: Any) -> None:
        with pytest.raises(ValueError, match="a URL begins with http:// or https:// and names a host"):
            web.scrape(url)
        assert site.asked == []


class TestNews:
    def test_without_feeds_news_is_a_search(self, web: Any, site: Site) -> None:
        article = HIT | {"type": "news", "published_at": "2026-01-31T08:00:00Z"}
        put(site, "search.json", [article, article | {"published_at": None}])
        found = web.news("tidal power", limit=100)
        assert found[0] == {
            **{"title": "Tides", "url": "http://files.example/tides", "source": "files.example"},
            **{"published_at": "2026-01-31T08:00:00Z", "summary": "About"},
        }
        assert (found[0].published_at, found[1].published_at) == ("2026-01-31T08:00:00Z", "")
        assert site.asked[-1] == "http://search.gateway/search?q=tidal+power&max_results=20&type=news"

    def test_error_without_feeds_and_search_names_both_settings(self, web: Any) -> None:
        for arguments, message in (((" ",), "the topic is empty"), (("x", 101), "1 to 100, not 101")):
            with pytest.raises(ValueError, match=message):
                web.news(*arguments)
        with pytest.raises(
            ConnectionError, match=r"NEWS_FEEDS is not set.*set SEARCH_PROVIDER.*EGRESS_ALLOW"
        ):
            web.news("tides")

    def test_unreachable_feeds_are_named(self, web: Any, site: Site) -> None:
        put(site, "feeds.json", ["https://a.example/rss?q={topic}", "http://files.example/none"])
        with pytest.raises(ConnectionError) as error:
            web.news("tidal power/$(x)")
        assert f"a.example:443 {REFUSAL}" in str(error.value)
        assert "http://files.example/none: 404" in str(error.value)
        put(site, "feeds.json", ["http://files.example/{topic}"])
        with pytest.raises(ConnectionError, match="404"):
            web.news("tidal power/$(x)")
        assert site.asked[-1] == "http://files.example/tidal%20power%2F%24%28x%29"
