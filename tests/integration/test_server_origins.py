"""A web page from elsewhere, at a server without tokens: it starts nothing and answers nothing (V7).

What a browser would send for it, sent over HTTP: with the page's origin, as text, as a form, by another name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from langgraph_server import Server, langgraph_dev
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

pytestmark = pytest.mark.docker

EVIL = "https://evil.example"
STUDIO = "https://smith.langchain.com"
SCRIPT = """\
conversations:
- when: one command
  replies:
  - tool_calls: [{name: execute, args: {command: "echo ran >> /workspace/one.txt"}}]
  - text: That is done.
"""
TASK = {"assistant_id": "deep_agent", "input": {"messages": [{"role": "user", "content": "one command"}]}}
APPROVE = {"assistant_id": "deep_agent", "command": {"resume": {"decisions": [{"type": "approve"}]}}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with langgraph_dev(tmp_path_factory.mktemp("open"), SCRIPT) as server:
        yield server


@pytest.fixture(scope="module")
def person(server: Server) -> Iterator[httpx.Client]:
    """Who runs the server, with a client of their own: no browser, no origin."""
    with server.client() as http:
        yield http


@pytest.fixture(scope="module")
def waiting(person: httpx.Client) -> str:
    """The path of a thread that waits for an approval."""
    thread = person.post("/threads", json={}).raise_for_status().json()["thread_id"]
    person.post(f"/threads/{thread}/runs/wait", json=TASK).raise_for_status()
    assert person.get(f"/threads/{thread}/state").json()["interrupts"]
    return f"/threads/{thread}"


TEXT = {"content-type": "text/plain;charset=UTF-8"}
JSON = {"content-type": "application/json"}
FORM = {"content-type": "application/x-www-form-urlencoded"}
PARTS = {"content-type": "multipart/form-data; boundary=b"}

PAGES = {
    "fetch, as text": ({"origin": EVIL, **TEXT}, 403),
    "fetch, as JSON": ({"origin": EVIL, **JSON}, 403),
    "a form": ({"origin": EVIL, **FORM}, 403),
    "a form with parts": ({"origin": EVIL, **PARTS}, 403),
    "from a sandboxed frame": ({"origin": "null", **TEXT}, 403),
    "from another port of this machine": ({"origin": "http://127.0.0.1:1", **JSON}, 403),
    "by a name of its own": ({"host": "evil.example", "origin": "http://evil.example", **JSON}, 403),
    "by a name of its own, unsaid": ({"host": "evil.example", **JSON}, 403),
    "by Studio's looks": ({"origin": f"{STUDIO}.evil.example", **JSON}, 403),
    "a form without an origin": (FORM, 415),
    "text without an origin": (TEXT, 415),
    "bytes without a type": ({}, 415),
}


@pytest.mark.parametrize("how", PAGES)
def test_a_page_from_elsewhere_starts_nothing_and_approves_nothing(
    server: Server, person: httpx.Client, waiting: str, how: str
) -> None:
    headers, status = PAGES[how]
    before = person.post("/threads/count", json={}).json()
    for path, body in [
        ("/threads", {}),
        ("/runs", TASK),
        ("/runs/stream", TASK),
        (f"{waiting}/runs", APPROVE),
        (f"{waiting}/runs/wait", APPROVE),
        (f"{waiting}/state", {"values": {}}),
        (f"{waiting}/commands", {"id": 1, "method": "input.respond", "params": {}}),
    ]:
        refused = person.post(path, content=json.dumps(body), headers=headers)
        assert (refused.status_code, path) == (status, path)
        assert "error" in refused.json()
        assert "access-control-allow-origin" not in refused.headers
    assert person.post("/threads/count", json={}).json() == before
    assert person.get(f"{waiting}/state").json()["interrupts"]
    assert len(person.get(f"{waiting}/runs").json()) == 1
    assert not list(server.folder.glob("workspace/**/one.txt"))


@pytest.mark.parametrize("headers", [{"origin": EVIL}, {"host": "evil.example:2024"}], ids=repr)
def test_every_route_says_no(person: httpx.Client, headers: dict[str, str]) -> None:
    paths = person.get("/openapi.json").json()["paths"]
    more = [
        "/",
        "/ok",
        "/health",
        "/docs",
        "/openapi.json",
        "/metrics",
        "/info",
        "/ui/x",
        "/nowhere",
        "/deploy",
    ]
    asked = [(name, re.sub(r"{\w+}", "x", path)) for path, each in paths.items() for name in each]
    asked += [(name, path) for path in more for name in ("get", "post", "options", "delete")]
    assert len(asked) > 80
    let_in = [route for route in asked if person.request(*route, headers=headers).status_code != 403]
    assert let_in == []


def test_asking_first_does_not_help(person: httpx.Client) -> None:
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "content-type"}
    refused = person.options("/runs", headers={"origin": EVIL, **asked})
    assert refused.status_code == 403
    assert not [name for name in refused.headers if name.startswith("access-control")]


def test_no_socket_either(server: Server, waiting: str) -> None:
    url = server.url.replace("http", "ws") + f"{waiting}/stream/events"
    for headers in ({"Origin": EVIL}, {"Origin": "null"}):
        with pytest.raises(InvalidStatus) as raised, connect(url, additional_headers=headers):
            pass
        assert raised.value.response.status_code == 403
    with connect(url, additional_headers={"Origin": STUDIO}) as socket:
        socket.send(json.dumps({"id": 1, "method": "no.such"}))
        assert json.loads(socket.recv(10))["id"] == 1


def test_studio_works_without_a_token(person: httpx.Client) -> None:
    asked = {
        "origin": STUDIO,
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type,x-auth-scheme",
        "access-control-request-private-network": "true",
    }
    preflight = person.options("/threads", headers=asked)
    assert preflight.status_code == 200
    allowed: dict[str, Any] = {name[21:]: value for name, value in preflight.headers.items()}
    assert (allowed["origin"], allowed["private-network"]) == (STUDIO, "true")
    assert "POST" in allowed["methods"]
    assert "x-auth-scheme" in allowed["headers"]
    answer = person.post("/threads", json={}, headers={"origin": STUDIO, "x-auth-scheme": "langsmith"})
    assert answer.status_code == 200
    assert answer.headers.get_list("access-control-allow-origin") == [STUDIO]
    read = person.post("/threads/search", json={"limit": 1}, headers={"origin": STUDIO})
    assert "x-pagination-next" in read.headers["access-control-expose-headers"]


def test_its_own_pages_and_names(server: Server, person: httpx.Client) -> None:
    for host in (f"127.0.0.1:{server.port}", f"localhost:{server.port}"):
        headers = {"host": host, "origin": f"http://{host}"}
        answer = person.post("/threads", json={}, headers=headers)
        assert answer.status_code == 200
        assert "access-control-allow-origin" not in answer.headers


def test_routes_that_only_look_internal_are_closed(person: httpx.Client, waiting: str) -> None:
    assert person.post("/internal/truncate").status_code == 404
    assert person.get(f"/internal/debug/thread/{waiting[9:]}").status_code == 404
    assert person.post("/deploy", json={}, headers={"origin": STUDIO}).status_code == 404
    assert person.get(waiting).is_success
