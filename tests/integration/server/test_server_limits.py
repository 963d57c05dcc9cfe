"""Tests the limits of a real server: size and time of bodies, concurrency, rate. Streams are not delayed."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx
import pytest

from tests.servers.served import Served
from tests.support.owners import ALICE, BOB
from tests.support.waiting import eventually

pytestmark = pytest.mark.docker

SCRIPT = """\
conversations:
- when: slowly
  replies:
  - tool_calls:
    - name: execute
      args: {command: "touch begun; until [ -e seen ]; do sleep 0.05; done; touch ended", timeout: 30}
  - text: That is done.
- when: at once
  replies:
  - text: That is done.
"""
OWNED = {
    **{"APPROVALS": "auto", "HTTP_MAX_BODY": "64k", "HTTP_BODY_SECONDS": "1"},
    **{"HTTP_RATE": "120", "HTTP_CONCURRENCY": "6"},
}


def raw(server: Served, head: str, body: bytes = b"", token: str | None = ALICE) -> socket.socket:
    """Open a connection and send the head of a request and a part of its body."""
    bearer = f"Authorization: Bearer {token}\r\n" if token else ""
    common = f"Host: 127.0.0.1:{server.port}\r\nContent-Type: application/json\r\n{bearer}"
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=10)
    connection.sendall(f"{head} HTTP/1.1\r\n{common}".encode() + body)
    return connection


def thread_of(alice: httpx.Client) -> str:
    return f"/threads/{alice.post('/threads', json={}).raise_for_status().json()['thread_id']}"


def task(text: str) -> dict[str, object]:
    return {"assistant_id": "deep_agent", "input": {"messages": [{"role": "user", "content": text}]}}


def test_body_over_the_size_limit_is_413(alice: httpx.Client) -> None:
    fits = {"metadata": {"x": "a" * 65_000}}
    assert alice.post("/threads", json=fits).status_code == 200
    for content in (
        json.dumps({"metadata": {"x": "a" * 66_000}}),
        iter([b"[", b" " * 40_000, b" " * 40_000]),
    ):
        refused = alice.post("/threads", content=content, headers={"content-type": "application/json"})
        assert (refused.status_code, refused.json()["error"]) == (
            413,
            "The body is too large: at most 65536 bytes.",
        )


def test_incomplete_body_is_408_and_starts_nothing(server: Served, alice: httpx.Client) -> None:
    thread = thread_of(alice)
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
    assert alice.get(f"{thread}/runs").json() == []


def test_unauthenticated_request_is_refused_before_its_body(server: Served) -> None:
    for token, status in ((None, b"401"), ("nobody", b"401")):
        with raw(server, "POST /threads", b"Content-Length: 5000\r\n\r\n{", token) as connection:
            assert connection.recv(4096).split()[1] == status


def test_streamed_events_are_not_delayed(server: Served, alice: httpx.Client) -> None:
    """The command ends only after a client has read an event that came before the command."""
    thread = thread_of(alice)
    asked = task("slowly") | {"stream_mode": ["updates"]}
    folder = server.workspace / "threads" / thread.rpartition("/")[2]
    with alice.stream("POST", f"{thread}/runs/stream", json=asked) as answer:
        assert answer.status_code == 200
        for line in answer.iter_lines():
            if line == "event: updates":
                eventually((folder / "begun").exists)
                (folder / "seen").touch()
    assert (folder / "ended").exists(), "no event came while the command waited"


@contextmanager
def opened(http: httpx.Client, path: str) -> Iterator[None]:
    """Open a stream. It is refused while an earlier request counts, which may outlast its answer."""
    deadline = time.monotonic() + 20
    while True:
        with http.stream("GET", path) as stream:
            if stream.status_code == 200:
                yield
                return
        assert stream.status_code in (429, 503)
        assert time.monotonic() < deadline, "earlier requests still count"
        time.sleep(0.3)


def test_concurrency_limit_and_half_of_it_per_owner(server: Served, alice: httpx.Client) -> None:
    with server.client(BOB) as other, ExitStack() as streams:
        threads = {owner: thread_of(owner) for owner in (alice, other)}
        for owner in (alice, other):
            for _ in range(3):
                streams.enter_context(opened(owner, f"{threads[owner]}/stream"))
            refused = owner.get("/info")
            if owner is alice:
                assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
                assert "half of the server's limit" in refused.json()["error"]
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert httpx.get(f"{server.url}/ok").status_code == 200
    deadline = time.monotonic() + 10
    while (again := alice.get("/info")).status_code == 503 or again.status_code == 429:
        assert time.monotonic() < deadline, "streams that were left are not at work"
        time.sleep(0.2)
    assert again.status_code == 200


def test_requests_over_the_rate_are_429(server: Served, alice: httpx.Client) -> None:
    """The last test of the file: it uses up the rate of a minute."""
    for _ in range(400):
        answer = alice.get("/info")
        if answer.status_code != 200:
            break
    assert answer.status_code == 429
    assert answer.json().keys() == {"error"}
    assert 1 <= int(answer.headers["retry-after"]) <= 2
    with server.client(BOB) as other:
        assert other.get("/info").status_code == 200
    assert httpx.get(f"{server.url}/ok").status_code == 200
