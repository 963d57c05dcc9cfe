"""`skills.web` and `skills.news` through a proxy on loopback: what is asked, and why there is nothing.

What HTML, PDF files and feeds say is in tests/integration/test_web_skills.py: with the sandbox's libraries.
"""

from __future__ import annotations

import importlib
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.web_site import REFUSAL, Site

ROOT = Path(__file__).parents[2]
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
def news(site: Site, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("skills.news")


@pytest.fixture
def fetch(web: Any) -> Any:
    return importlib.import_module("skills.web._fetch")


def put(site: Site, name: str, content: bytes | str | list[Any], kind: str = "text/plain") -> str:
    data = json.dumps(content) if isinstance(content, list) else content
    (site.folder / name).write_bytes(data.encode() if isinstance(data, str) else data)
    return f"http://files.example/{name}?type={kind}"


class TestSearch:
    def test_it_gives_what_the_gateway_gives(self, web: Any, site: Site) -> None:
        put(site, "search.json", [HIT | {"published_at": "2026-01-31T08:00:00Z"}, HIT | {"type": "news"}])
        assert web.search("tides") == [HIT]
        assert web.search("tides & $(touch /tmp/x) 'ü", 3, "news") == [HIT]
        assert web.search("tides", type="academic") == []
        assert site.asked[1] == (
            "http://search.gateway/search?q=tides+%26+%24%28touch+%2Ftmp%2Fx%29+%27%C3%BC&max_results=3&type=news"
        )

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"query": ""}, "the query is empty"),
            ({"query": " "}, "the query is empty"),
            ({"query": None}, "the query is empty"),
            ({"max_results": 0}, "1 to 20, not 0"),
            ({"max_results": 21}, "not 21"),
            ({"max_results": True}, "not True"),
            ({"max_results": "5"}, "not '5'"),
            ({"type": "images"}, "type is web, news, academic, not 'images'"),
            ({"type": ""}, "not ''"),
        ],
    )
    def test_an_argument_that_is_not_allowed(
        self, web: Any, site: Site, arguments: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(ValueError, match=message):
            web.search(**{"query": "x", **arguments})
        assert site.asked == []

    def test_what_the_gateway_refuses_is_said_in_its_words(self, web: Any, site: Site) -> None:
        with pytest.raises(
            ConnectionError, match="No search provider is set: ask the person to set SEARCH_PROV"
        ):
            web.search("tides")
        put(site, "search.json", [])
        with pytest.raises(ValueError, match="Brave has no academic search"):
            web.search("not allowed")

    def test_results_that_are_made_up_say_so(
        self, web: Any, site: Site, capsys: pytest.CaptureFixture[str]
    ) -> None:
        put(site, "search.json", [HIT])
        assert web.search("made up") == [HIT]
        assert "SEARCH_PROVIDER=fake, so these results are not from the web" in capsys.readouterr().err
        web.search("tides")
        assert capsys.readouterr().err == ""

    def test_no_gateway(self, web: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        with pytest.raises(
            ConnectionError, match=r"there is no network: the gateway at http://127\.0\.0\.1:"
        ) as error:
            web.search("tides")
        assert error.value.__cause__ is None
        assert "object at 0x" not in str(error.value)


class TestScrape:
    @pytest.mark.parametrize(
        ("kind", "markdown"),
        [
            ("text/plain", "a *b*\n"),
            ("text/markdown", "a *b*\n"),
            ("application/octet-stream", "a *b*\n"),
            ("", "a *b*\n"),
            ("application/json", "```json\na *b*\n```\n"),
            ("application/ld%2Bjson", "```json\na *b*\n```\n"),
            ("text/csv", "```csv\na *b*\n```\n"),
            ("text/x-python", "```python\na *b*\n```\n"),
            ("application/xml", "```xml\na *b*\n```\n"),
        ],
    )
    def test_text_of_every_kind(self, web: Any, site: Site, kind: str, markdown: str) -> None:
        url = put(site, "notes", "a *b*\r\n", kind)
        assert web.scrape(url) == {
            "url": url,
            "title": "notes",
            "markdown": markdown,
            "text": "a *b*\n",
        }

    def test_a_fence_is_longer_than_those_within(self, web: Any, site: Site) -> None:
        markdown = web.scrape(put(site, "a.json", '"````"', "application/json"))["markdown"]
        assert markdown == '`````json\n"````"\n`````\n'

    @pytest.mark.parametrize(
        ("content", "kind"),
        [
            ("Grüße €".encode(), "text/plain"),
            ("Grüße €".encode("cp1252"), "text/plain; charset=ISO-8859-1"),
            ("Grüße €".encode("cp1252"), "text/plain;charset='windows-1252'"),
            ("Grüße €".encode(), "text/plain; charset=nonsense"),
            ("Grüße €".encode(), "text/plain; charset=base64"),
            (b"\xef\xbb\xbf" + "Grüße €".encode(), "text/plain; charset=latin-1"),
            ("Grüße €".encode("utf-16"), "text/plain"),
            ("\ufeffGrüße €".encode("utf-16-be"), "text/plain"),
            (
                '<?xml version="1.0" encoding="iso-8859-15"?><a>Grüße €</a>'.encode("iso-8859-15"),
                "application/xml",
            ),
        ],
    )
    def test_encodings(self, web: Any, site: Site, content: bytes, kind: str) -> None:
        assert "Grüße €" in web.scrape(put(site, "a", content, kind.replace(";", "%3B")))["text"]

    def test_an_encoding_that_nobody_names(self, web: Any, site: Site) -> None:
        russian = "Съешь же ещё этих мягких французских булок, да выпей чаю. " * 5
        assert "булок" in web.scrape(put(site, "a", russian.encode("cp1251")))["text"]
        assert web.scrape(put(site, "a", b"\xff\xfa\xf0\x81"))["text"]

    def test_redirects_lead_to_the_address_that_is_returned(self, web: Any, site: Site) -> None:
        url = put(site, "a", "text")
        assert web.scrape(f"http://odd.example/to?url={url}")["url"] == url
        with pytest.raises(ConnectionError, match="over 10 redirects"):
            web.scrape("http://odd.example/loop")
        assert len(site.asked) < 15

    @pytest.mark.parametrize(
        "target", ["file:///etc/passwd", "ftp://files.example/a", "gopher://files.example"]
    )
    def test_a_redirect_to_something_else(self, web: Any, target: str) -> None:
        with pytest.raises(ConnectionError, match="neither http nor https"):
            web.scrape(f"http://odd.example/to?url={target}")

    def test_a_redirect_to_a_host_that_is_refused(self, web: Any) -> None:
        for scheme, port in (("http", 80), ("https", 443)):
            with pytest.raises(ConnectionError, match=rf"403 elsewhere.example:{port} {REFUSAL}$"):
                web.scrape(f"http://odd.example/to?url={scheme}://elsewhere.example/x")

    @pytest.mark.parametrize("scheme", ["http", "https"])
    def test_a_refusal_reaches_the_model_with_host_and_setting(self, web: Any, scheme: str) -> None:
        with pytest.raises(ConnectionError) as error:
            web.scrape(f"{scheme}://example.org/secret")
        port = {"http": 80, "https": 443}[scheme]
        assert str(error.value) == f"{scheme}://example.org/secret: 403 example.org:{port} {REFUSAL}"
        assert error.value.__suppress_context__ or error.value.__context__ is None

    @pytest.mark.parametrize("status", [400, 401, 404, 410, 429, 500, 503])
    def test_an_error_of_the_site(self, web: Any, status: int) -> None:
        with pytest.raises(ConnectionError, match=rf"http://odd.example/status/{status}: {status} \w+"):
            web.scrape(f"http://odd.example/status/{status}")
        with pytest.raises(ConnectionError, match="404 Not Found: nothing here"):
            web.scrape("http://files.example/none")

    @pytest.mark.parametrize(
        ("content", "kind"),
        [
            (b"\x89PNG\r\n\x1a\n\0\0", "image/png"),
            (b"<svg/>", "image/svg"),
            (b"PK\x03\x04\0\0", "application/zip"),
            (b"\x7fELF\0", "application/octet-stream"),
            (b"\0\0\0", "text/plain"),
            (b"words", "video/mp4"),
        ],
    )
    def test_what_has_no_text_is_named(self, web: Any, site: Site, content: bytes, kind: str) -> None:
        with pytest.raises(ValueError, match=f"is {kind}, {len(content)} bytes: no text; save it with curl"):
            web.scrape(put(site, "a", content, kind))

    @pytest.mark.parametrize("content", [b"", b" \n"])
    def test_nothing_at_all(self, web: Any, site: Site, content: bytes) -> None:
        with pytest.raises(ValueError, match="has no text"):
            web.scrape(put(site, "a", content))

    @pytest.mark.parametrize("what", ["endless", "bomb"])
    def test_what_is_too_large_is_broken_off(self, web: Any, what: str) -> None:
        with pytest.raises(ValueError, match="is over 10 MB: save it with curl"):
            web.scrape(f"http://odd.example/{what}")

    def test_what_never_ends_is_broken_off(
        self, web: Any, fetch: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert fetch.MAX_SECONDS == 60
        monkeypatch.setattr(fetch, "MAX_SECONDS", 0.3)
        began = time.monotonic()
        with pytest.raises(TimeoutError, match="not all there"):
            web.scrape("http://odd.example/drip")
        assert time.monotonic() - began < 5

    def test_what_never_begins_is_given_up(
        self, web: Any, fetch: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(fetch, "_WAIT", (0.3, 0.3))
        with pytest.raises(TimeoutError, match="no answer within"):
            web.scrape("http://odd.example/silent")

    def test_what_breaks_off_is_an_error(self, web: Any) -> None:
        with pytest.raises(ConnectionError, match=r"http://odd\.example/cut: "):
            web.scrape("http://odd.example/cut")

    @pytest.mark.parametrize(
        "url",
        [
            "",
            "example.org",
            "file:///etc/passwd",
            "ftp://a.example",
            "http://",
            "https:///x",
            "http://[x",
            "-o/x",
            5,
        ],
    )
    def test_only_addresses_of_the_web(self, web: Any, site: Site, url: Any) -> None:
        with pytest.raises(ValueError, match="a URL begins with http:// or https:// and names a host"):
            web.scrape(url)
        assert site.asked == []


class TestNews:
    def test_without_feeds_it_is_a_search(self, news: Any, site: Site) -> None:
        article = HIT | {"type": "news", "published_at": "2026-01-31T08:00:00Z"}
        put(site, "search.json", [article, article | {"published_at": None}])
        found = news.news("tidal power", limit=100)
        assert found[0] == {
            **{"title": "Tides", "url": "http://files.example/tides", "source": "files.example"},
            **{"published_at": "2026-01-31T08:00:00Z", "summary": "About"},
        }
        assert found[1]["published_at"] == ""
        assert site.asked[-1] == "http://search.gateway/search?q=tidal+power&max_results=20&type=news"

    def test_without_either_both_settings_are_named(self, news: Any) -> None:
        with pytest.raises(
            ConnectionError, match=r"NEWS_FEEDS is not set.*set SEARCH_PROVIDER.*EGRESS_ALLOW"
        ):
            news.news("tides")

    def test_feeds_that_cannot_be_had_are_named(self, news: Any, site: Site) -> None:
        put(site, "feeds.json", ["https://a.example/rss?q={topic}", "http://files.example/none"])
        with pytest.raises(ConnectionError) as error:
            news.news("tidal power/$(x)")
        assert f"a.example:443 {REFUSAL}" in str(error.value)
        assert "http://files.example/none: 404" in str(error.value)
        put(site, "feeds.json", ["http://files.example/{topic}"])
        with pytest.raises(ConnectionError, match="404"):
            news.news("tidal power/$(x)")
        assert site.asked[-1] == "http://files.example/tidal%20power%2F%24%28x%29"

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"topic": " "}, "the topic is empty"),
            ({"topic": 5}, "the topic is empty"),
            ({"limit": 0}, "1 to 100, not 0"),
            ({"limit": 101}, "not 101"),
            ({"limit": True}, "not True"),
        ],
    )
    def test_an_argument_that_is_not_allowed(
        self, news: Any, site: Site, arguments: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(ValueError, match=message):
            news.news(**{"topic": "x", **arguments})
        assert site.asked == []
