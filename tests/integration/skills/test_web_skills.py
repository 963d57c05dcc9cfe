"""`skills.web` inside the container: text of pages, PDF files and feeds, and news."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from libs.backends.docker import DockerExecutionBackend
from tests.servers.inside_web import ARTICLE, FEED, PROXIED, put, serve, upload

pytestmark = pytest.mark.docker


@pytest.fixture(autouse=True)
def web(backend: DockerExecutionBackend) -> None:
    serve(backend)
    backend.execute("rm -f /workspace/data/search.json /workspace/data/feeds.json")


def run(backend: DockerExecutionBackend, program: str) -> Any:
    done = backend.execute(f"{PROXIED} python -c {shlex.quote(program)}", timeout=120)
    assert done.exit_code == 0, done.output
    return json.loads(done.output.splitlines()[-1])


def scrape(backend: DockerExecutionBackend, url: str) -> dict[str, str]:
    program = f"import json; from skills.web import scrape; print(json.dumps(scrape({url!r})))"
    page: dict[str, str] = run(backend, program)
    assert page.keys() == {"url", "title", "markdown", "text"}
    return page


def news(backend: DockerExecutionBackend, topic: str, limit: int = 10) -> list[dict[str, str]]:
    program = f"import json; from skills.web import news; print(json.dumps(news({topic!r}, {limit})))"
    items: list[dict[str, str]] = run(backend, program)
    return items


def error(backend: DockerExecutionBackend, program: str) -> str:
    """Return the last line of the only traceback."""
    done = backend.execute(f"{PROXIED} python -c {shlex.quote(program)}")
    assert done.exit_code == 1, done.output
    assert done.output.count("Traceback") == 1
    return done.output.splitlines()[-1]


def refused(backend: DockerExecutionBackend, url: str) -> str:
    return error(backend, f"from skills.web import scrape; scrape({url!r})")


class TestPages:
    def test_an_article(self, backend: DockerExecutionBackend) -> None:
        url = put(backend, "a.html", ARTICLE)
        page = scrape(backend, url)
        assert (page["url"], page["title"]) == (url, "What tidal power costs")
        for part in (
            "## Sites",
            "**dear**",
            "| La Rance | 120 EUR |",
            "](http://energy.example/kinds)",
            "- Ebb",
        ):
            assert part in page["markdown"]
        for part in ("Power from the tides is dear as long", "La Rance", "the overview of kinds", "Two-way"):
            assert part in page["text"]
        for part in ("newsletter", "Imprint", "Log in", "from a program"):
            assert part not in page["markdown"] + page["text"]
        assert "**" not in page["text"]
        assert "http://energy.example" not in page["text"]

    def test_page_drawn_by_a_script_is_refused(self, backend: DockerExecutionBackend) -> None:
        url = put(backend, "a.html", '<html><body><div id="app"></div><script>draw()</script></body></html>')
        assert "has no text that can be read; a page may be drawn by a program" in refused(backend, url)

    @pytest.mark.thorough
    @pytest.mark.parametrize(
        "content",
        [
            b"<html>" + b"<div>" * 100_000,
            b"<html><body>" + b"<p>words and more words</p>" * 100_000,
            b"<html><body><table>" + b"<tr><td>1<td>2" * 100_000,
            b"<html><body>\xff\xfe\x01\x02 &#0; &#x110000; &nosuch; <p",
            b"<!doctype html><html><body><svg><math><template><p>words" + b"<b>" * 10_000,
            b'<!DOCTYPE html [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><html><body><p>x &b;</p></body>',
        ],
        ids=["deep", "long", "table", "broken", "nested", "entities"],
    )
    def test_large_or_broken_page_ends(self, backend: DockerExecutionBackend, content: bytes) -> None:
        url = put(backend, "a.html", content)
        program = f"from skills.web import scrape\ntry: scrape({url!r})\nexcept ValueError: pass\nprint('[]')"
        assert run(backend, program) == []


class TestDocuments:
    def test_pdf(self, backend: DockerExecutionBackend) -> None:
        done = backend.execute("printf '# Tides\\n\\nThey rise.\\n' | generate-pdf tides Tides")
        assert done.exit_code == 0, done.output
        backend.execute("cp /results/tides.pdf /workspace/data/tides.pdf")
        for kind in ("application/pdf", "application/octet-stream", "text/html"):
            page = scrape(backend, f"http://files.example/tides.pdf?type={kind}")
            assert page["title"] == "Tides"
            assert "They rise." in page["text"]
            assert page["markdown"].startswith("## Page 1\n\n")

    def test_a_feed(self, backend: DockerExecutionBackend) -> None:
        for kind in ("application/rss+xml", "text/xml; charset=utf-8"):
            page = scrape(backend, put(backend, "feed", FEED, kind))
            assert page["title"] == "Harbour Times"
            assert (
                "- [Tidal power plant opens](http://news.example/opens) (2026-01-31T08:00:00Z)"
                in page["markdown"]
            )
            assert "The first turbine has run since Friday." in page["text"]
        assert "is not an RSS or Atom feed" in refused(
            backend, put(backend, "x", "<a/>", "application/rss+xml")
        )


ATOM = """\
<feed xmlns="http://www.w3.org/2005/Atom" xml:base="http://blog.example/"><title>A blog</title>
<entry><title type="html">Tides &amp;amp; &lt;i>power&lt;/i></title><link href="/tides"/>
<updated>2026-02-02T01:00:00+02:00</updated><summary>On tidal power.</summary></entry>
<entry><title>No date</title><link href="http://blog.example/nodate"/><summary>tidal power</summary></entry>
<entry><title>Odd</title><link href="javascript:alert(1)"/><summary>tidal power</summary></entry>
<entry><title>Same</title><link href="http://news.example/opens"/><updated>2020-01-01T00:00:00Z</updated>
<summary>tidal power, long ago</summary></entry>
</feed>
"""

RDF = """\
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"
 xmlns:dc="http://purl.org/dc/elements/1.1/"><channel rdf:about="http://old.example/"><title>Old</title></channel>
<item rdf:about="http://old.example/1"><title>Tidal mill</title><link>http://old.example/1</link>
<description>power</description><dc:date>1999-12-31T23:00:00-02:00</dc:date></item></rdf:RDF>
"""

GOOGLE = """\
<rss version="2.0"><channel><title>"tidal power" - News</title>
<item><title>Found by search</title><link>http://other.example/1</link>
<pubDate>Mon, 02 Feb 2026 00:00:00 GMT</pubDate><source url="http://other.example">The Other</source>
<description>no such words</description></item></channel></rss>
"""


class TestNews:
    def test_articles_of_several_feeds(self, backend: DockerExecutionBackend) -> None:
        feeds = [
            put(backend, "rss", FEED, "application/rss+xml"),
            put(backend, "atom", ATOM, "application/atom+xml"),
            put(backend, "rdf", RDF, "text/xml"),
            put(backend, "q-tidal power", GOOGLE, "text/xml").replace("tidal power", "{topic}"),
            "https://refused.example/feed",
            put(backend, "page", ARTICLE),
        ]
        upload(backend, "/workspace/data/feeds.json", feeds)
        items = news(backend, "tidal power")
        assert [(item["published_at"], item["source"], item["url"], item["title"]) for item in items] == [
            ("2026-02-02T00:00:00Z", "The Other", "http://other.example/1", "Found by search"),
            ("2026-02-01T23:00:00Z", "A blog", "http://blog.example/tides", "Tides & power"),
            ("2026-01-31T08:00:00Z", "Harbour Times", "http://news.example/opens", "Tidal power plant opens"),
            ("2000-01-01T01:00:00Z", "Old", "http://old.example/1", "Tidal mill"),
            ("", "A blog", "http://blog.example/nodate", "No date"),
        ]
        assert items[2]["summary"] == "The first turbine has run since Friday."
        assert news(backend, "tidal power", 2) == items[:2]
        assert news(backend, "POWER tidal", 2) == items[1:3]  # the search has nothing for that
        done = backend.execute(f"{PROXIED} python -c 'from skills.web import news; news(\"tidal power\")'")
        assert (
            "news: https://refused.example/feed: 403 refused.example:443 is not in EGRESS_ALLOW"
            in done.output
        )
        assert "news: http://files.example/page?type=text/html is not an RSS or Atom feed" in done.output

    @pytest.mark.thorough
    @pytest.mark.parametrize(
        "feed",
        [
            b"",
            b"\0\xff" * 1000,
            b"<rss",
            b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
            b"<rss version='2.0'><channel><item><title>&x;</title><link>http://a.example</link></item></channel></rss>",
            b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a "aaaaaaaaaa">'
            + b"".join(b'<!ENTITY %c "%s">' % (98 + n, b"&%c;" % (97 + n) * 10) for n in range(9))
            + b"]><rss version='2.0'><channel><item><title>&j;</title></item></channel></rss>",
        ],
        ids=["empty", "binary", "cut", "external entity", "entities of entities"],
    )
    def test_hostile_feed_ends_without_leaks(self, backend: DockerExecutionBackend, feed: bytes) -> None:
        upload(backend, "/workspace/data/feeds.json", [put(backend, "f", feed, "application/rss+xml")])
        program = (
            "from skills.web import news\ntry: print(news('root'))\nexcept ConnectionError as e: print(e)"
        )
        done = backend.execute(f"{PROXIED} timeout 20 python -c {shlex.quote(program)}")
        assert done.exit_code == 0
        assert "root:" not in done.output
        assert len(done.output) < 2000
