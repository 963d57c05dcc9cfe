"""Tests that a foreign web page cannot start a run or answer an approval at a server without tokens.

The requests are those that a browser sends for the page: with its origin, as text, as a form, or under
another host name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.servers.served import Served

pytestmark = pytest.mark.docker

EVIL = "https://evil.example"
STUDIO = "https://smith.langchain.com"
SCRIPT = """\
conversations:
- when: "origins: one command"
  replies:
  - tool_calls: [{name: execute, args: {command: "echo ran >> /workspace/origins.txt"}}]
  - text: That is done.
"""
TASK = {
    "assistant_id": "deep_agent",
    "input": {"messages": [{"role": "user", "content": "origins: one command"}]},
}
APPROVE = {"assistant_id": "deep_agent", "command": {"resume": {"decisions": [{"type": "approve"}]}}}


@pytest.fixture(scope="module")
def person(shared_server: Served) -> Iterator[httpx.Client]:
    """A client of the person who runs the server: no browser, no origin."""
    with shared_server.client() as http:
        yield http


@pytest.fixture(scope="module")
def waiting(person: httpx.Client) -> str:
    """Return the path of a thread that waits for an approval."""
    thread = person.post("/threads", json={}).raise_for_status().json()["thread_id"]
    person.post(f"/threads/{thread}/runs/wait", json=TASK).raise_for_status()
    assert person.get(f"/threads/{thread}/state").json()["interrupts"]
    return f"/threads/{thread}"


TEXT = {"content-type": "text/plain;charset=UTF-8"}
JSON = {"content-type": "application/json"}
FORM = {"content-type": "application/x-www-form-urlencoded"}

PAGES = {
    "fetch, as text": ({"origin": EVIL, **TEXT}, 403),
    "fetch, as JSON": ({"origin": EVIL, **JSON}, 403),
    "from a sandboxed frame": ({"origin": "null", **TEXT}, 403),
    "by a name of its own": ({"host": "evil.example", "origin": "http://evil.example", **JSON}, 403),
    "a form without an origin": (FORM, 415),
    "bytes without a type": ({}, 415),
}


@pytest.mark.parametrize("how", PAGES)
def test_foreign_page_starts_nothing_and_approves_nothing(
    shared_server: Served, person: httpx.Client, waiting: str, how: str
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
    assert not list(shared_server.folder.glob("workspace/**/origins.txt"))


@pytest.mark.parametrize("headers", [{"origin": EVIL}, {"host": "evil.example:2024"}], ids=repr)
def test_every_route_refuses_foreign_pages(person: httpx.Client, headers: dict[str, str]) -> None:
    paths = person.get("/openapi.json").json()["paths"]
    more = (
        "/", "/ok", "/health", "/docs", "/openapi.json", "/metrics", "/info", "/ui/x", "/nowhere", "/deploy",
    )  # fmt: skip
    asked = [(name, re.sub(r"{\w+}", "x", path)) for path, each in paths.items() for name in each]
    asked += [(name, path) for path in more for name in ("get", "post", "options", "delete")]
    assert len(asked) > 80
    let_in = [route for route in asked if person.request(*route, headers=headers).status_code != 403]
    assert let_in == []


def test_preflight_of_another_origin_is_refused(person: httpx.Client) -> None:
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "content-type"}
    refused = person.options("/runs", headers={"origin": EVIL, **asked})
    assert refused.status_code == 403
    assert not [name for name in refused.headers if name.startswith("access-control")]


def test_websocket_of_another_origin_is_refused(shared_server: Served, waiting: str) -> None:
    url = shared_server.url.replace("http", "ws") + f"{waiting}/stream/events"
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
