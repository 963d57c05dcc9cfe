"""What leaves the sandbox, from the outside: search, read, cite; packages; and secrets that never go in."""

from __future__ import annotations

import http.server
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_program import Program
from package_servers import html_page, served, wheel

pytestmark = pytest.mark.docker

SITE = "127.0.0.2"
"""On this machine, as every address of 127.0.0.0/8 is; inside, only the gateway leads to it."""
PAGES = {
    "/tidal": ("What tidal power costs", "Tidal power cost 178 euros per megawatt hour in 2022."),
    "/wind": ("What wind power costs", "Wind power at sea cost 81 euros per megawatt hour in 2022."),
    "/token": ("", ""),
}
KEY = "tok-5e9b1f7c2a8d4e60"


class Site(http.server.BaseHTTPRequestHandler):
    """A small test site; it keeps what it was asked."""

    protocol_version = "HTTP/1.1"
    asked: list[tuple[str, dict[str, str]]]

    let_go = threading.Event()

    def do_GET(self) -> None:
        type(self).asked.append((self.path, dict(self.headers)))
        if self.path == "/slow":
            self.let_go.wait(60)
        title, text = PAGES.get(self.path, ("", ""))
        found = bool(title)
        paragraphs = f"<p>{text}</p>" + "<p>How this was found out is described in the annual report.</p>" * 5
        page = (
            f"<html><head><title>{title}</title></head><body><article><h1>{title}</h1>{paragraphs}</article>"
        )
        body = page.encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[str]:
    Site.asked = []
    server = http.server.ThreadingHTTPServer((SITE, 0), Site)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    Site.let_go.clear()
    yield f"http://{SITE}:{server.server_port}"
    Site.let_go.set()
    server.shutdown()
    thread.join()
    server.server_close()


def block(code: str, language: str = "python") -> str:
    return f"I go on.\n```{language}\n{code}\n```"


def test_search_read_two_pages_and_write_a_cited_summary(program: Program, site: str) -> None:
    results = [
        {"title": title, "url": site + path, "snippet": text[:40], "source": SITE}
        for path, (title, text) in PAGES.items()
        if title
    ]
    (program.folder / "results.json").write_text(json.dumps(results))
    program.environment |= {
        "SEARCH_PROVIDER": f"fake:{program.folder / 'results.json'}",
        "EGRESS_ALLOW": site,
        "EGRESS_PRIVATE": f"{SITE}/32",
        "APPROVALS": "auto",
    }
    program.script(
        block("from skills.web import search, scrape\nhits = search('cost of power')\nprint(hits)"),
        block(
            "pages = [scrape(hit['url']) for hit in hits[:2]]\n"
            "for page in pages:\n    print(page['title'], '|', page['text'][:200])"
        ),
        block(
            "from skills.pdf import generate\n"
            "texts = [page['text'].splitlines() for page in pages]\n"
            "found = [next(line for line in lines if 'euros' in line) for lines in texts]\n"
            "lines = ['# The cost of power']\n"
            "lines += [f'{line.split(\".\")[0]} [{number}].' for number, line in enumerate(found, 1)]\n"
            "lines += ['## Sources']\n"
            "lines += [f'{number}. {page[\"url\"]}' for number, page in enumerate(pages, 1)]\n"
            "print(generate('\\n\\n'.join(lines), 'summary'))"
        ),
        block(
            "from pypdf import PdfReader\n"
            "print(*(page.extract_text() for page in PdfReader('/results/summary.pdf').pages))"
        ),
        "The summary is in /results/summary.pdf.",
    )

    lines = program.lines("--agent", "code", "search, read two pages, write a cited summary PDF")

    result = lines[-1]
    outputs = [execution["output"] for execution in result["executions"]]
    assert [execution["exit_code"] for execution in result["executions"]] == [0, 0, 0, 0], outputs
    assert result["status"] == "completed"
    assert "results/summary.pdf" in result["files"]
    text = outputs[3]
    for expected in ("178 euros", "81 euros", "[1]", "[2]", f"{site}/tidal", f"{site}/wind"):
        assert expected in " ".join(text.split()), text
    assert [path for path, _ in Site.asked] == ["/tidal", "/wind"]


def test_what_is_not_allowed_is_named_with_its_setting(program: Program, site: str) -> None:
    program.environment |= {"EGRESS_ALLOW": site, "EGRESS_PRIVATE": f"{SITE}/32", "APPROVALS": "auto"}
    code = (
        "curl -sS http://elsewhere.example/; curl -sS https://elsewhere.example/\n"
        "python3 -c 'import requests; requests.get(\"https://elsewhere.example/\")' 2>&1 | tail -1"
    )
    program.script(block(code, "bash"), "Not allowed.")

    result = program.lines("--agent", "code", "fetch it")[-1]

    output = result["executions"][0]["output"]
    assert output.count("elsewhere.example") >= 2
    assert "EGRESS_ALLOW" in output.splitlines()[0]
    assert "EGRESS_ALLOW" in output.splitlines()[-1]
    assert Site.asked == []


@pytest.mark.parametrize("on", [True, False])
def test_packages_come_from_the_index_of_pip_on_the_host(program: Program, on: bool) -> None:
    """Its password is in nothing that is said or kept."""
    name, content = wheel("thing")
    with served() as index:
        index.add("/simple/thing/", html_page({name: content}))
        index.add(f"/simple/thing/{name}", content)
        program.environment |= {
            "EGRESS_PACKAGES": "1" if on else "0",
            "PIP_INDEX_URL": index.url.replace("://", f"://me:{KEY}@") + "/simple",
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_FIND_LINKS": "",
            "APPROVALS": "auto",
        }
        code = "pip install -v thing 2>&1; env; python -c 'import thing; print(thing.VERSION)' || true"
        program.script(block(code, "bash"), "Tried.")

        result = program.lines("--agent", "code", "install it")[-1]

    output = result["executions"][0]["output"]
    if on:
        assert output.splitlines()[-1] == "1.0", output
        assert all("authorization" in headers for *_, headers in index.asked)
    else:
        assert "EGRESS_PACKAGES is 0: ask the person to set EGRESS_PACKAGES=1" in output
        assert index.asked == []
    kept = [
        path for path in program.folder.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()
    ]
    assert kept == []
    assert KEY not in json.dumps(result)


def test_by_default_nothing_gets_out(program: Program, site: str) -> None:
    program.environment |= {"APPROVALS": "auto"}
    program.script(block(f"curl -sS {site}/wind", "bash"), "No network.")

    output = program.lines("--agent", "code", "fetch it")[-1]["executions"][0]["output"]

    assert f"EGRESS_ALLOW is empty: {SITE} is refused, as every host is" in output
    assert Site.asked == []


@pytest.mark.parametrize("scope", ["shared", "thread"])
def test_every_request_is_logged_with_whose_it_is(program: Program, site: str, scope: str) -> None:
    program.environment |= {
        "EGRESS_ALLOW": site,
        "EGRESS_PRIVATE": f"{SITE}/32",
        "APPROVALS": "auto",
        "SANDBOX_SCOPE": scope,
    }
    program.script(block(f"curl -sS {site}/wind | head -c 5; curl -sS http://no.example/", "bash"), "Done.")

    result = program.lines("--agent", "code", "fetch it")[-1]

    [log] = list(Path(program.folder).rglob("egress.jsonl"))
    allowed, refused = (json.loads(line) for line in log.read_text().splitlines())
    assert (allowed["host"], allowed["path"], allowed["decision"], allowed["status"]) == (
        SITE,
        "/wind",
        "allowed",
        200,
    )
    assert (refused["host"], refused["decision"]) == ("no.example", "refused")
    assert "EGRESS_ALLOW" in refused["reason"]
    assert all(line["sandbox"].startswith("code-execution-agent-") for line in (allowed, refused))
    if scope == "thread":
        assert {line["thread"] for line in (allowed, refused)} == {result["thread_id"]}
    assert log.stat().st_mode & 0o777 == 0o600


def test_what_is_under_way_at_the_end_is_logged(program: Program, site: str) -> None:
    program.environment |= {"EGRESS_ALLOW": site, "EGRESS_PRIVATE": f"{SITE}/32", "APPROVALS": "auto"}
    fetch = f"curl -sS {site}/slow > /dev/null 2>&1 & curl -sS {site}/wind | head -c 5; sleep 1"
    program.script(block(fetch, "bash"), "Done.")

    program.lines("--agent", "code", "fetch it")

    [log] = list(Path(program.folder).rglob("egress.jsonl"))
    lines = {line["path"]: line for line in map(json.loads, log.read_text().splitlines())}
    assert lines.keys() == {"/wind", "/slow"}
    assert lines["/slow"]["status"] == 0
    assert lines["/slow"]["reason"] in ("the gateway was closed", "the connection was broken off")
