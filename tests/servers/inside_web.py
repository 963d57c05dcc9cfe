"""Run the web server `web_site.py` inside a sandbox. It serves the folder of the user's data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from libs.backends.docker import DockerExecutionBackend

PROGRAM = Path(__file__).with_name("web_site.py")
PORT = 3199
PROXIED = " ".join(
    f"{name}=http://127.0.0.1:{PORT}" for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
)
"""Prefix of a command that sends all its requests to this server."""


def serve(backend: DockerExecutionBackend) -> None:
    """Start the server, unless it already runs."""
    upload(backend, "/tmp/web_site.py", PROGRAM.read_bytes())
    listening = f"(exec 3<> /dev/tcp/127.0.0.1/{PORT}) 2> /dev/null"
    done = backend.execute(
        f"{listening} || python /tmp/web_site.py {PORT} /workspace/data > /tmp/web_site.log 2>&1 &\n"
        f"for n in $(seq 200); do {listening} && exit 0; sleep 0.05; done; cat /tmp/web_site.log; exit 1"
    )
    assert done.exit_code == 0, done.output


def upload(backend: DockerExecutionBackend, path: str, content: bytes | str | list[Any]) -> None:
    text = json.dumps(content) if isinstance(content, list) else content
    (done,) = backend.upload_files([(path, text.encode() if isinstance(text, str) else text)])
    assert done.error is None


def put(
    backend: DockerExecutionBackend, name: str, content: bytes | str | list[Any], kind: str = "text/html"
) -> str:
    """Upload a file to serve, and return its address."""
    upload(backend, f"/workspace/data/{name}", content)
    return f"http://files.example/{name}?type={kind.replace(';', '%3B').replace('+', '%2B')}"


ARTICLE = """\
<!doctype html><html lang="en"><head><title>What tidal power costs</title>
<meta property="og:title" content="What tidal power costs"></head>
<body><nav><a href="/">Home</a> <a href="/login">Log in to your account</a></nav>
<article><h1>What tidal power costs</h1>
<p>Power from the tides is <b>dear</b> as long as few plants are built. The figures below are those of plants
that have run for at least five years, as their owners report them, and they differ by half.</p>
<h2>Sites</h2>
<table><tr><th>site</th><th>cost per MWh</th></tr><tr><td>La Rance</td><td>120 EUR</td></tr>
<tr><td>Sihwa</td><td>98 EUR</td></tr></table>
<p>More is in <a href="http://energy.example/kinds">the overview of kinds</a>, which also says how plants are
built, and how long they are expected to last before their turbines have to be replaced once.</p>
<ul><li>Ebb generation takes one turn of the tide.</li><li>Two-way generation takes both.</li></ul>
</article><aside>Buy our newsletter now</aside><footer>Imprint and cookies</footer>
<script>document.write("from a program")</script></body></html>
"""

FEED = """\
<?xml version="1.0" encoding="utf-8"?>
<rss version="2.0"><channel><title>Harbour Times</title><link>http://news.example/</link>
<item><title>Tidal power plant opens</title><link>http://news.example/opens</link>
<pubDate>Sat, 31 Jan 2026 09:00:00 +0100</pubDate>
<description>
&lt;p&gt;The first turbine &lt;b&gt;has&lt;/b&gt; run since Friday.&lt;/p&gt;</description></item>
<item><title>Harbour closed</title><link>http://news.example/closed</link>
<pubDate>Sun, 01 Feb 2026 09:00:00 GMT</pubDate><description>Ice &amp;amp; wind.</description></item>
</channel></rss>
"""


def example(backend: DockerExecutionBackend) -> None:
    """Upload the files that the examples in SKILL.md of `web` use."""
    put(backend, "tidal", ARTICLE)
    hits = [("What tidal power costs", "tidal"), ("Tidal range and tidal stream", "kinds")]
    found = [
        {"title": title, "url": f"http://energy.example/{path}", "snippet": "…", "source": "energy.example"}
        for title, path in hits
    ]
    upload(backend, "/workspace/data/search.json", found)
    feed = put(backend, "feed", FEED, "application/rss+xml")
    upload(backend, "/workspace/data/feeds.json", [feed])
