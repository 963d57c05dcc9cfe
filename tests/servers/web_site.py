"""A proxy that plays the gateway and some web sites, for tests of the skill `web`.

It also runs inside the sandbox (`python web_site.py PORT FOLDER`), so it imports only the standard library.
The proxy answers requests itself:

- http://search.gateway/search and /feeds, as the gateway does, from FOLDER/search.json and FOLDER/feeds.json
- http://files.example/NAME?type=KIND, and http://energy.example/NAME: the file FOLDER/NAME
- http://odd.example/…: addresses that behave badly
- every other host, and every host over https: refused, as the gateway refuses
"""

from __future__ import annotations

import gzip
import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

REFUSAL = "is not in EGRESS_ALLOW: ask the person to add it, or do without"


class Site(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, folder: Path, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.folder = folder
        self.asked: list[str] = []
        """The URL of each request."""

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that leave early."""


class _Handler(BaseHTTPRequestHandler):
    server: Site

    def do_CONNECT(self) -> None:
        self.server.asked.append(f"https://{self.path}")
        self._refuse(self.path)

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        parts = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(parts.query, True).items()}
        if parts.hostname == "search.gateway":
            self._search(parts.path, query)
        elif parts.hostname in {"files.example", "energy.example"}:
            file = self.server.folder / unquote(parts.path).lstrip("/")
            if file.is_file():
                self._answer(200, file.read_bytes(), query.get("type", "text/html"))
            else:
                self._answer(404, b"nothing here", "text/plain")
        elif parts.hostname == "odd.example":
            self._odd(parts.path.strip("/"), query)
        else:
            self._refuse(f"{parts.hostname}:{parts.port or 80}")

    def _search(self, path: str, query: dict[str, str]) -> None:
        if path == "/feeds":
            file = self.server.folder / "feeds.json"
            feeds = json.loads(file.read_bytes()) if file.is_file() else []
            return self._answer(200, json.dumps({"feeds": feeds}).encode(), "application/json")
        file = self.server.folder / "search.json"
        if not file.is_file():
            error = {"error": "No search provider is set: ask the person to set SEARCH_PROVIDER."}
            return self._answer(503, json.dumps(error).encode(), "application/json")
        if query["q"] == "not allowed":
            return self._answer(400, b'{"error": "Brave has no academic search."}', "application/json")
        found = [each for each in json.loads(file.read_bytes()) if each.get("type", "web") == query["type"]]
        results = [
            {"published_at": None, **{key: value for key, value in each.items() if key != "type"}}
            for each in found[: int(query["max_results"])]
        ]
        answer = {"results": results, "provider": "fake" if query["q"] == "made up" else "brave"}
        return self._answer(200, json.dumps(answer).encode(), "application/json")

    def _odd(self, what: str, query: dict[str, str]) -> None:
        if what.startswith("status/"):
            self._answer(int(what[7:]), b"<html>an error page", "text/html")
        elif what == "to":
            self._answer(302, b"", "text/html", Location=query["url"])
        elif what == "loop":
            self._answer(302, b"", "text/html", Location="http://odd.example/loop")
        elif what == "bomb":
            self._answer(200, gzip.compress(bytes(64 * 2**20)), "text/plain", **{"Content-Encoding": "gzip"})
        elif what == "cut":
            self._head(200, "text/plain", 1000)
            self.wfile.write(b"half of it")
        elif what in {"endless", "drip"}:
            self._head(200, "text/plain", 10**9)
            while True:
                self.wfile.write(b"x" * (100_000 if what == "endless" else 1))
                time.sleep(0 if what == "endless" else 0.05)
        elif what == "silent":
            time.sleep(60)

    def _refuse(self, host: str) -> None:
        message = f"{host} {REFUSAL}"
        body = f"{message}\n".encode()
        self.send_response(403, message)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def _answer(self, status: int, body: bytes, kind: str, **headers: str) -> None:
        self._head(status, kind, len(body), **headers)
        self.wfile.write(body)

    def _head(self, status: int, kind: str, length: int, **headers: str) -> None:
        self.send_response(status)
        for name, value in ({"Content-Type": kind} | headers).items():
            if value:
                self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


if __name__ == "__main__":
    Site(Path(sys.argv[2]), int(sys.argv[1])).serve_forever()
