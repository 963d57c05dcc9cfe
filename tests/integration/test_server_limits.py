"""Bodies, seconds, requests at once and in a minute, at a real server: refused beyond, streams untouched."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest
from langgraph_server import Server, langgraph_dev

from agent.tokens import new_token

pytestmark = pytest.mark.docker

SCRIPT = """\
conversations:
- when: slowly
  replies:
  - tool_calls: [{name: execute, args: {command: "sleep 3"}}]
  - text: That is done.
- when: at once
  replies:
  - text: That is done.
"""
ALICE, ALICES = new_token("alice")
BOB, BOBS = new_token("bob")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    bounds = {"HTTP_MAX_BODY": "64k", "HTTP_BODY_SECONDS": "1", "HTTP_RATE": "120", "HTTP_CONCURRENCY": "6"}
    tokens = f"{ALICES},{BOBS}"
    folder = tmp_path_factory.mktemp("bounded")
    with langgraph_dev(folder, SCRIPT, APPROVALS="auto", AUTH_TOKENS=tokens, **bounds) as server:
        yield server


@pytest.fixture
def http(server: Server) -> Iterator[httpx.Client]:
    with server.client(ALICE) as http:
        yield http


def raw(server: Server, head: str, body: bytes = b"", token: str | None = ALICE) -> socket.socket:
    """A connection on which the head of a request was sent, and some of its body."""
    bearer = f"Authorization: Bearer {token}\r\n" if token else ""
    common = f"Host: 127.0.0.1:{server.port}\r\nContent-Type: application/json\r\n{bearer}"
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=10)
    connection.sendall(f"{head} HTTP/1.1\r\n{common}".encode() + body)
    return connection


def thread_of(http: httpx.Client) -> str:
    return f"/threads/{http.post('/threads', json={}).raise_for_status().json()['thread_id']}"


def task(text: str) -> dict[str, object]:
    return {"assistant_id": "deep_agent", "input": {"messages": [{"role": "user", "content": text}]}}


def test_a_body_may_have_so_many_bytes(http: httpx.Client) -> None:
    fits = {"metadata": {"x": "a" * 65_000}}
    assert http.post("/threads", json=fits).status_code == 200
    for content in (
        json.dumps({"metadata": {"x": "a" * 66_000}}),
        iter([b"[", b" " * 40_000, b" " * 40_000]),
    ):
        refused = http.post("/threads", content=content, headers={"content-type": "application/json"})
        assert (refused.status_code, refused.json()["error"]) == (
            413,
            "The body is too large: at most 65536 bytes.",
        )


def test_half_a_body_is_answered_and_starts_nothing(server: Server, http: httpx.Client) -> None:
    thread = thread_of(http)
    half = json.dumps(task("at once")).encode()
    began = time.monotonic()
    with raw(server, f"POST {thread}/runs", b"Content-Length: 5000\r\n\r\n" + half) as connection:
        answer = connection.makefile("rb").read()  # until the server closes it
    assert answer.startswith(b"HTTP/1.1 408"), answer
    assert 0.9 < time.monotonic() - began < 5
    chunk = b"Transfer-Encoding: chunked\r\n\r\n" + f"{len(half):x}\r\n".encode() + half + b"\r\n"
    for body in (b"Content-Length: 5000\r\n\r\n" + half, chunk):
        raw(server, f"POST {thread}/runs", body).close()  # a client that leaves in the middle
    time.sleep(0.5)
    assert http.get(f"{thread}/runs").json() == []


def test_whoever_may_not_come_in_is_not_waited_for(server: Server) -> None:
    for token, status in ((None, b"401"), ("nobody", b"401")):
        began = time.monotonic()
        with raw(server, "POST /threads", b"Content-Length: 5000\r\n\r\n{", token) as connection:
            assert connection.recv(4096).split()[1] == status
        assert time.monotonic() - began < 0.9


def test_what_streams_comes_as_it_is_made(http: httpx.Client) -> None:
    thread = thread_of(http)
    asked = task("slowly") | {"stream_mode": ["updates"]}
    came: list[tuple[float, str]] = []
    with http.stream("POST", f"{thread}/runs/stream", json=asked) as answer:
        assert answer.status_code == 200
        for line in answer.iter_lines():
            if line.startswith("event:"):
                came.append((time.monotonic(), line))
    assert len(came) > 2
    assert came[-1][0] - came[0][0] > 2.5, "the first event was there while the command slept"


def test_so_many_at_once_and_half_of_them_for_one(server: Server, http: httpx.Client) -> None:
    with server.client(BOB) as other, ExitStack() as streams:
        threads = {owner: thread_of(owner) for owner in (http, other)}
        time.sleep(0.3)  # the last request is at work for a moment after its answer
        for owner in (http, other):
            for _ in range(3):
                stream = owner.stream("GET", f"{threads[owner]}/stream")
                assert streams.enter_context(stream).status_code == 200
            refused = owner.get("/info")
            if owner is http:
                assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
                assert "half of what there can be" in refused.json()["error"]
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert httpx.get(f"{server.url}/ok").status_code == 200
    deadline = time.monotonic() + 10
    while (again := http.get("/info")).status_code == 503 or again.status_code == 429:
        assert time.monotonic() < deadline, "streams that were left are not at work"
        time.sleep(0.2)
    assert again.status_code == 200


def test_too_many_in_a_minute(server: Server, http: httpx.Client) -> None:
    """Last: it uses up the minute."""
    for _ in range(400):
        answer = http.get("/info")
        if answer.status_code != 200:
            break
    assert answer.status_code == 429
    assert 1 <= int(answer.headers["retry-after"]) <= 2
    with server.client(BOB) as other:
        assert other.get("/info").status_code == 200
    assert httpx.get(f"{server.url}/ok").status_code == 200
