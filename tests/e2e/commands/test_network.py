"""`code-agent run` with a network: web search, packages, refused hosts, the request log."""

from __future__ import annotations

import http.server
import json
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.clients.cli_program import Program
from tests.servers.http_server import QuietHandler, running
from tests.servers.package_servers import html_page, served, wheel

pytestmark = [pytest.mark.docker, pytest.mark.thorough]

SITE = "127.0.0.2"
"""An address of this machine. From the sandbox only the gateway leads there."""
KEY = "tok-5e9b1f7c2a8d4e60"


class Site(QuietHandler):
    """A small site that records its requests."""

    protocol_version = "HTTP/1.1"
    asked: list[str]
    let_go = threading.Event()

    def do_GET(self) -> None:
        type(self).asked.append(self.path)
        if self.path == "/slow":
            self.let_go.wait(60)
        self.answer(200, f"<h1>A page</h1><p>It is {self.path}.</p>".encode(), "text/html; charset=utf-8")


@pytest.fixture
def site() -> Iterator[str]:
    Site.asked = []
    Site.let_go.clear()
    with running(http.server.ThreadingHTTPServer((SITE, 0), Site)) as server:
        yield f"http://{SITE}:{server.server_port}"
        Site.let_go.set()


@pytest.fixture
def allowed(program: Program, site: str) -> Program:
    program.environment |= {"EGRESS_ALLOW": site, "EGRESS_PRIVATE": f"{SITE}/32", "APPROVALS": "auto"}
    return program


def output_of(program: Program, code: str, language: str = "bash") -> tuple[str, str]:
    """Run one block; return its output and the thread."""
    program.script(f"I go on.\n```{language}\n{code}\n```", "Done.")
    result = program.lines("--agent", "code", "go on")[-1]
    return result["executions"][0]["output"], result["thread_id"]


def logged(program: Program) -> list[dict[str, Any]]:
    [log] = program.folder.rglob("egress.jsonl")
    assert log.stat().st_mode & 0o777 == 0o600
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_search_scrape_and_report_in_one_program(allowed: Program, site: str) -> None:
    results = [{"title": "A page", "url": f"{site}/wind", "snippet": "…", "source": SITE}]
    (allowed.folder / "results.json").write_text(json.dumps(results))
    allowed.environment["SEARCH_PROVIDER"] = f"fake:{allowed.folder / 'results.json'}"
    code = """
from pypdf import PdfReader
from skills.pdf import generate
from skills.web import scrape, search
[hit] = search("cost of power")
generate(f"# Report\\n\\n{scrape(hit['url'])['text']} [{hit['url']}]", "summary")
print(PdfReader("/results/summary.pdf").pages[0].extract_text())"""
    output, _ = output_of(allowed, code, "python")
    assert "It is /wind." in output
    assert f"{site}/wind" in output
    assert Site.asked == ["/wind"]


def test_refused_host_is_named_with_its_setting(allowed: Program) -> None:
    code = (
        "curl -sS http://elsewhere.example/; curl -sS https://elsewhere.example/\n"
        "python3 -c 'import requests; requests.get(\"https://elsewhere.example/\")' 2>&1 | tail -1"
    )
    output, _ = output_of(allowed, code)
    assert output.count("elsewhere.example") >= 2
    assert "EGRESS_ALLOW" in output.splitlines()[0]
    assert "EGRESS_ALLOW" in output.splitlines()[-1]


def test_by_default_nothing_gets_out(program: Program, site: str) -> None:
    program.environment |= {"APPROVALS": "auto"}
    output, _ = output_of(program, f"curl -sS {site}/wind")
    assert f"EGRESS_ALLOW is empty: {SITE} is refused, as every host is" in output
    assert Site.asked == []


def test_packages_come_from_the_index_of_pip_on_the_host(program: Program) -> None:
    """The password of the index is neither printed nor kept."""
    name, content = wheel("thing")
    with served() as index:
        index.add("/simple/thing/", html_page({name: content}))
        index.add(f"/simple/thing/{name}", content)
        program.environment |= {
            "EGRESS_PACKAGES": "1",
            "PIP_INDEX_URL": index.url.replace("://", f"://me:{KEY}@") + "/simple",
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_FIND_LINKS": "",
            "APPROVALS": "auto",
        }
        code = "pip install -v thing 2>&1; env; python -c 'import thing; print(thing.VERSION)' || true"
        output, _ = output_of(program, code)
    assert output.splitlines()[-1] == "1.0", output
    assert all("authorization" in headers for *_, headers in index.asked)
    kept = [
        path for path in program.folder.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()
    ]
    assert kept == []
    assert KEY not in output


def test_every_request_is_logged_with_its_thread(allowed: Program, site: str) -> None:
    allowed.environment["SANDBOX_SCOPE"] = "thread"
    _, thread = output_of(allowed, f"curl -sS {site}/wind | head -c 5; curl -sS http://no.example/")
    # A request is logged when its connection ends, which may be after the next request.
    accepted, refused = sorted(logged(allowed), key=lambda line: str(line["decision"]))
    assert [accepted[key] for key in ("host", "path", "decision", "status")] == [
        SITE,
        "/wind",
        "allowed",
        200,
    ]
    assert (refused["host"], refused["decision"]) == ("no.example", "refused")
    assert "EGRESS_ALLOW" in refused["reason"]
    assert all(line["sandbox"].startswith("code-execution-agent-") for line in (accepted, refused))
    assert {line["thread"] for line in (accepted, refused)} == {thread}


def test_open_request_is_logged_at_the_end(allowed: Program, site: str) -> None:
    output_of(allowed, f"curl -sS {site}/slow > /dev/null 2>&1 & curl -sS {site}/wind | head -c 5; sleep 1")
    lines = {line["path"]: line for line in logged(allowed)}
    assert lines.keys() == {"/wind", "/slow"}
    assert lines["/slow"]["status"] == 0
    assert lines["/slow"]["reason"] in ("the gateway was closed", "the connection was broken off")
