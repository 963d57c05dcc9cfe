"""Programs and the network: through the gateway, with secrets never seen; documented interfaces (X9, G2)."""

from __future__ import annotations

import http.server
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import trustme

from agent.exec_catalogue import Api, load_catalogue
from libs.exec_tool.kv_service import HOST, KvService
from libs.exec_tool.runner import CodeRunner
from libs.gateway.addresses import Address
from libs.gateway.credentials import CredentialRule, Credentials
from libs.gateway.gateway import Gateway
from libs.gateway.proxy import Proxy
from libs.gateway.redaction import SecretFilter
from libs.gateway.rules import Rules
from libs.persistence.database import SqliteDatabase
from libs.persistence.thread_store import ThreadStore
from tests.integration.exec_runners import runner

pytestmark = pytest.mark.docker

CATALOGUE = load_catalogue()
KEY = "key-9KxQ2vB7nT4cW8zL1mR5"
ORDERS = {
    "orders": [
        {"city": "Bergen", "total": 12.5},
        {"city": "Oslo", "total": 7},
        {"city": "Bergen", "total": 2},
    ]
}

Answer = Callable[["Site"], tuple[int, Any, dict[str, str]]]


def search(site: Site) -> tuple[int, Any, dict[str, str]]:
    count = int(site.asked("count"))
    results = [
        {"title": f"Page {n}", "url": f"https://page.example/{n}", "description": "…"} for n in range(count)
    ]
    return 200, {"web": {"results": results}, "query": {"more_results_available": True}}, {}


def issues(site: Site) -> tuple[int, Any, dict[str, str]]:
    page = int(site.asked("page", "1"))
    listed = [{"number": n, "title": f"Issue {page}.{n}", "state": "open"} for n in range(3)]
    listed.append({"number": 9, "title": "A pull request", "pull_request": {}})
    there = f"https://api.github.com{urlsplit(site.path).path}?state=open&per_page=100&page={page + 1}"
    return 200, listed, {"Link": f'<{there}>; rel="next"'} if page < 3 else {}


def completion(site: Site) -> tuple[int, Any, dict[str, str]]:
    assert site.body()["messages"][0]["role"] == "user"
    return (
        200,
        {"choices": [{"message": {"role": "assistant", "content": "Rhine"}, "finish_reason": "stop"}]},
        {},
    )


def message(site: Site) -> tuple[int, Any, dict[str, str]]:
    assert site.headers["anthropic-version"] == "2023-06-01"
    assert site.body()["max_tokens"] == 100
    return 200, {"content": [{"type": "text", "text": "Rhine"}], "stop_reason": "end_turn"}, {}


def forecast(site: Site) -> tuple[int, Any, dict[str, str]]:
    assert site.asked("latitude") == "52.52"
    return 200, {"daily": {"time": ["2024-05-01", "2024-05-02"], "temperature_2m_max": [18.2, 21.0]}}, {}


def feed(site: Site) -> tuple[int, Any, dict[str, str]]:
    item = (
        "<item><title>News {0}</title><link>https://news.example/{0}</link>"
        "<pubDate>Wed, 01 May 2024 10:00:00 GMT</pubDate></item>"
    )
    items = "".join(item.format(n) for n in range(3))
    return 200, f'<?xml version="1.0"?><rss version="2.0"><channel>{items}</channel></rss>', {}


ANSWERS: dict[str, tuple[Answer, str]] = {
    "api.search.brave.com": (search, "5 pages were found."),
    "api.github.com": (issues, "9 issues were read."),
    "api.openai.com": (completion, "Rhine"),
    "api.anthropic.com": (message, "Rhine"),
    "api.open-meteo.com": (forecast, "The warmest day is 2024-05-02 with 21.0 °C."),
    "feeds.bbci.co.uk": (feed, "3 headlines were read."),
}
"""Servers that follow the documented contract, and what the documented example makes of their answers."""


class Site(http.server.BaseHTTPRequestHandler):
    """All of them, and a shop without TLS; keeps what it was asked."""

    protocol_version = "HTTP/1.1"
    seen: list[tuple[str, str, dict[str, str]]]

    def do_GET(self) -> None:
        host = self.headers["Host"].partition(":")[0]
        type(self).seen.append(
            (host, self.path, {name.lower(): value for name, value in self.headers.items()})
        )
        status, body, headers = ANSWERS[host][0](self) if host in ANSWERS else (200, ORDERS, {})
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    do_POST = do_GET

    def asked(self, name: str, default: str = "") -> str:
        return parse_qs(urlsplit(self.path).query).get(name, [default])[0]

    def body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving(context: ssl.SSLContext | None) -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CodeRunner]:
    """Every documented host is a server here; its key is added by the gateway."""
    folder = tmp_path_factory.mktemp("exec")
    public = trustme.CA()
    tls, trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    public.issue_cert(*ANSWERS).configure_cert(tls)
    public.configure_trust(trusted)
    rules = [
        CredentialRule(
            api.host, api.header, str(api.secret), "Bearer {}" if api.header == "Authorization" else "{}"
        )
        for api in CATALOGUE.apis
        if api.header
    ]
    # The rest is tunnelled, and a program would not trust its certificate: the gateway ends TLS for all.
    rules += [
        CredentialRule(api.host, "X-Nothing", "NOTHING", "{}") for api in CATALOGUE.apis if not api.header
    ]
    secrets = {rule.secret: KEY for rule in rules}
    credentials = Credentials(rules, secrets, SecretFilter({"KEY": KEY}))
    database = SqliteDatabase(folder / "kv.sqlite")
    with serving(tls) as secure, serving(None) as plain:

        async def resolve(host: str, port: int) -> list[Address]:
            return [Address("127.0.0.1", secure if port == 443 else plain)]

        allowed = [*(f"https://{host}" for host in ANSWERS), "http://shop.test"]
        gateway = Gateway(
            lambda: Proxy(
                rules=Rules.parse(allowed),
                resolve=resolve,
                credentials=credentials,
                tls=trusted,
                services={HOST: KvService(ThreadStore(database))},
            ),
            credential_hosts=frozenset(credentials.hosts),
        )
        with runner(folder, name="test-exec-network", egress=gateway.door) as made:
            yield made
        gateway.close()
    database.close()


@pytest.fixture(autouse=True)
def nothing_asked() -> None:
    Site.seen = []


FETCH = """
import collections, json, urllib.request
orders = json.load(urllib.request.urlopen("http://shop.test/orders.json"))["orders"]
totals = collections.Counter()
for order in orders:
    totals[order["city"]] += order["total"]
best, total = totals.most_common(1)[0]
print(json.dumps({"ok": True, "answer": f"{best}: {total}", "totals": totals}))
"""


def test_json_is_fetched_summed_up_and_printed(run: CodeRunner) -> None:
    result = run.run(FETCH)
    assert (result.error, result.result) == (
        None,
        {"ok": True, "answer": "Bergen: 14.5", "totals": {"Bergen": 14.5, "Oslo": 7}},
    )
    assert [path for _, path, _ in Site.seen] == ["/orders.json"]


def test_with_curl_too(run: CodeRunner) -> None:
    result = run.run("curl -sS http://shop.test/orders.json | jq '[.orders[].total] | add'", language="bash")
    assert (result.error, result.result) == (None, 21.5)


def test_what_is_not_allowed_is_an_error_of_the_network(run: CodeRunner) -> None:
    result = run.run("import urllib.request; urllib.request.urlopen('http://elsewhere.test/')")
    assert result.error and result.error.kind == "network"
    assert "EGRESS_ALLOW" in result.error.message


@pytest.mark.parametrize("api", CATALOGUE.apis, ids=lambda api: api.name)
def test_the_documented_example_of_every_interface_runs(run: CodeRunner, api: Api) -> None:
    result = run.run(api.example)
    assert result.error is None, (result.error, result.stderr)
    assert result.result["answer"] == ANSWERS[api.host][1]
    assert {host for host, *_ in Site.seen} == {api.host}
    if api.header:
        shown = [headers[api.header.lower()] for *_, headers in Site.seen]
        assert shown == [f"Bearer {KEY}" if api.header == "Authorization" else KEY] * len(shown)


def test_a_secret_is_added_and_printed_nowhere(run: CodeRunner) -> None:
    code = """
import json, os, requests, subprocess
told = requests.get("https://api.github.com/repos/python/cpython/issues", timeout=15)
everything = subprocess.run("env; cat /proc/*/environ; grep -ra key- /tmp /workspace 2>/dev/null", shell=True,
                            capture_output=True, text=True, errors="replace").stdout
print(json.dumps({"status": told.status_code, "request": dict(told.request.headers), "seen": everything}))
"""
    result = run.run(code)
    assert result.error is None, result.stderr
    assert result.result["status"] == 200
    assert Site.seen[-1][2]["authorization"] == f"Bearer {KEY}"
    assert KEY not in json.dumps(result.as_json())


def test_values_are_kept_for_the_thread(run: CodeRunner) -> None:
    good = next(each for each in CATALOGUE.good if "kv" in each.code)
    assert [run.run(good.code, thread="1").result["count"] for _ in range(3)] == [1, 2, 3]
    assert run.run(good.code, thread="2").result["count"] == 1


def test_good_programs_run(run: CodeRunner, tmp_path: Path) -> None:
    sales = (Path(__file__).parents[2] / "workspace" / "data" / "sales.csv").read_text()
    for good in CATALOGUE.good:
        result = run.run(
            good.code, thread="good", files={"data/sales.csv": sales} if "sales" in good.code else {}
        )
        assert result.error is None, (good.task, result.stderr)
        assert result.result["ok"] is True
        assert result.result["answer"]
