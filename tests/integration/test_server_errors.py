"""Whatever goes wrong on a route of this project is `{"error": …}`, over real HTTP, and so are refusals."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from langgraph_server import Server, langgraph_dev

SCRIPT = "- text: hello\n" * 20
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with langgraph_dev(tmp_path_factory.mktemp("errors"), SCRIPT, HTTP_MAX_BODY="2m") as server:
        yield server


@pytest.fixture(scope="module")
def http(server: Server) -> Iterator[httpx.Client]:
    with server.client() as http:
        yield http


@pytest.mark.parametrize(
    ("status", "method", "path", "sent"),
    [
        (400, "POST", "/run", {"content": "{", "headers": JSON}),
        (400, "POST", "/run", {"json": []}),
        (400, "POST", "/run", {"json": {"input": "x", "nothing": 1}}),
        (400, "POST", "/run/a/resume", {"json": {"decisions": 1}}),
        (400, "POST", "/run-lite", {"json": {"input": ""}}),
        (403, "POST", "/run", {"json": {"input": "x"}, "headers": {"Origin": "https://evil.example"}}),
        (403, "GET", "/health", {"headers": {"Host": "evil.example"}}),
        (404, "POST", "/run", {"json": {"input": "x", "thread_id": "none"}}),
        (404, "POST", "/run/none/resume", {"json": {"decisions": []}}),
        (404, "POST", "/run/", {"json": {"input": "x"}}),
        (404, "POST", "/run/none", {"json": {"input": "x"}}),
        (404, "GET", "/run-lite/files", {}),
        (405, "GET", "/run", {}),
        (405, "PUT", "/run", {"json": {"input": "x"}}),
        (405, "GET", "/run/none/resume", {}),
        (405, "DELETE", "/run-lite", {}),
        (405, "OPTIONS", "/run-lite", {}),
        (405, "POST", "/health", {"json": {}}),
        (405, "GET", "/mcp", {}),
        (413, "POST", "/run", {"json": {"input": "x" * (1 << 20)}}),
        (413, "POST", "/run", {"json": {"input": "x" * (3 << 20)}}),
        (413, "POST", "/run-lite", {"json": {"input": "x" * (1 << 20)}}),
        (415, "POST", "/run", {"content": '{"input": "x"}', "headers": {"Content-Type": "text/plain"}}),
        (500, "POST", "/run-lite", {"json": {"input": "no model is set"}}),
    ],
)
def test_an_error_has_one_shape(
    http: httpx.Client, status: int, method: str, path: str, sent: dict[str, Any]
) -> None:
    answer = http.request(method, path, **sent)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert answer.json().keys() == {"error"}
    assert answer.json()["error"]
    assert "Traceback" not in answer.text
    assert (status == 405) == ("allow" in answer.headers)


def test_a_database_that_cannot_be_written_is_an_error_like_others(
    http: httpx.Client, server: Server
) -> None:
    """Another program holds it for longer than anybody waits; then all goes on."""
    holder = sqlite3.connect(server.folder / ".code-agent" / "threads.sqlite", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    try:
        answer = http.post("/run", json={"input": "say hello"})
    finally:
        holder.execute("ROLLBACK")
        holder.close()
    assert answer.status_code == 503, answer.text
    assert "could not be written" in answer.json()["error"]
    assert answer.json().keys() == {"error"}
    assert http.post("/run", json={"input": "say hello"}).status_code == 200


def test_too_many_requests_are_told_so_in_the_same_way(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("rate")
    with langgraph_dev(folder, SCRIPT, HTTP_RATE="1") as server, server.client() as http:
        answers = [http.post("/run-lite", json={"input": " "}) for _ in range(3)]
    assert answers[-1].status_code == 429
    assert answers[-1].json().keys() == {"error"}
    assert int(answers[-1].headers["retry-after"]) > 0


@pytest.mark.parametrize("url", ["http://10.1.2.3/x", "https://10.1.2.3/x", "https://example.com/x", "/runs"])
def test_no_run_has_the_server_send_anything_anywhere(http: httpx.Client, url: str) -> None:
    run = {"assistant_id": "deep_agent", "input": {"messages": "hello"}, "webhook": url}
    thread = f"/threads/{http.post('/threads', json={}).json()['thread_id']}"
    cron = {**run, "schedule": "0 0 1 1 *"}
    for path, body in [("/runs/wait", run), (f"{thread}/runs", run), (f"{thread}/runs/crons", cron)]:
        answer = http.post(path, json=body)
        assert answer.status_code == 422, (path, answer.text)
        assert "ebhook" in answer.json()["detail"]
    assert http.get(f"{thread}/runs").json() == []
