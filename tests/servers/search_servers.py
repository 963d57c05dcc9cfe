"""Servers on loopback with the documented interfaces of Brave and SearXNG, and servers that misbehave."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.servers.http_server import QuietHandler, QuietServer, running

KEY = "BSA-canary-7f3c9e1d5b"


@dataclass
class Reply:
    """An HTTP response. The server waits `pause` seconds before the head and after each byte."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    pause: float = 0


def json_reply(body: object, status: int = 200, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, json.dumps(body).encode(), {"Content-Type": "application/json", **named})


@dataclass
class Asked:
    path: str
    query: dict[str, str]
    headers: Mapping[str, str]


class Server(QuietServer):
    """Answers GET with `replies` in order, and repeats the last one."""

    def __init__(self, *replies: Reply | Callable[[Asked], Reply]) -> None:
        super().__init__(_Handler)
        self.asked: list[Asked] = []
        self._replies = list(replies)

    def next(self, asked: Asked) -> Reply:
        self.asked.append(asked)
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        return reply(asked) if callable(reply) else reply


class _Handler(QuietHandler):
    server: Server

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        reply = self.server.next(Asked(parts.path, query, dict(self.headers)))
        time.sleep(reply.pause)
        self.send_response(reply.status)
        for name, value in {**reply.headers, "Content-Length": str(len(reply.body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if not reply.pause:
            self.wfile.write(reply.body)
        for byte in reply.body if reply.pause else b"":
            self.wfile.write(bytes([byte]))
            time.sleep(reply.pause)


@contextmanager
def serving(*replies: Reply | Callable[[Asked], Reply]) -> Iterator[Server]:
    with running(Server(*replies)) as server:
        yield server


def brave_error(code: str, status: int, **headers: str) -> Reply:
    """An error in Brave's form."""
    error = {"id": "5d83", "code": code, "detail": f"About {KEY}.", "status": status, "meta": {}}
    return json_reply({"type": "ErrorResponse", "error": error, "time": 1663072993}, status, **headers)


def brave(asked: Asked) -> Reply:
    """Brave's search: https://api-dashboard.search.brave.com/documentation."""
    if "X-Subscription-Token" not in asked.headers:
        meta = {"errors": [{"type": "missing", "loc": ["header", "x-subscription-token"]}]}
        error = {"code": "VALIDATION", "detail": "Unable to validate", "status": 422, "meta": meta}
        return json_reply({"type": "ErrorResponse", "error": error}, 422)
    if asked.headers["X-Subscription-Token"] != KEY:
        return brave_error("SUBSCRIPTION_TOKEN_INVALID", 422)
    kind = asked.path.removeprefix("/res/v1/").removesuffix("/search")
    most = {"web": 20, "news": 50}.get(kind)
    if most is None:
        return Reply(404)
    known = {"q", "count", "offset", "country", "search_lang", "safesearch", "freshness", "spellcheck"}
    known |= {"text_decorations", "result_filter"} if kind == "web" else set()
    count = int(asked.query.get("count", "20"))
    if not (asked.query.get("q") and 1 <= count <= most and asked.query.keys() <= known):
        return brave_error("VALIDATION", 422)
    found = [brave_result(number, kind) for number in range(1, count + 1)]
    query = {"original": asked.query["q"], "more_results_available": True}
    if asked.query["q"] == "nothing":
        return json_reply(
            {"type": "search", "query": query}
            if kind == "web"
            else {"type": "news", "query": query, "results": []}
        )
    if kind == "news":
        return json_reply({"type": "news", "query": query, "results": found})
    return json_reply(
        {"type": "search", "query": query, "web": {"type": "search", "results": found}, "mixed": {}}
    )


def brave_result(number: int, kind: str) -> dict[str, Any]:
    host = f"www{number}.example"
    result: dict[str, Any] = {
        "title": f"Tides &amp; <strong>power</strong> {number}",
        "url": f"https://{host}/tides",
        "description": f"Costs &lt; 100&nbsp;EUR\nper <strong>MWh</strong>, {number}",
        "age": "2 days ago",
        "page_age": "2026-01-31T08:00:00",
        "meta_url": {"scheme": "https", "netloc": host, "hostname": host, "path": "/tides"},
    }
    if kind == "news":
        result |= {"type": "news_result", "source": {"name": "Harbour Times", "url": f"https://{host}"}}
    return result


def searxng(asked: Asked) -> Reply:
    """SearXNG's search: https://docs.searxng.org/dev/search_api.html."""
    if asked.path not in {"/", "/search"}:
        return Reply(404)
    if not asked.query.get("q"):
        return Reply(400)
    if asked.query.get("format") != "json":
        return Reply(200, b"<html>", {"Content-Type": "text/html"})
    category = asked.query.get("categories", "general")
    found = [searxng_result(number, category) for number in range(1, 31)]
    return json_reply(
        {
            "query": asked.query["q"],
            "number_of_results": 0,
            "results": [] if asked.query["q"] == "nothing" else found,
            **{"answers": [], "corrections": [], "infoboxes": [], "suggestions": []},
            "unresponsive_engines": [],
        }
    )


def searxng_result(number: int, category: str) -> dict[str, Any]:
    host = f"host{number}.example"
    result: dict[str, Any] = {
        **{"title": f"Tides {number}", "url": f"https://{host}/tides", "content": "About tides"},
        **{"engine": "some", "engines": ["some"], "category": category, "score": 1.0},
        **{"template": "default.html", "positions": [number]},
        "parsed_url": ["https", host, "/tides", "", "", ""],
        "publishedDate": "2026-01-31T09:00:00+01:00" if number % 2 else None,
    }
    if category == "science":
        result |= {"template": "paper.html", "journal": "Journal of Tides", "authors": ["A"], "doi": "10.1/1"}
    return result
