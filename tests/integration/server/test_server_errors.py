"""Tests errors and refusals over real HTTP, also for bodies that make LangGraph's server fail."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.servers.served import Served

SCRIPT = """\
conversations:
- when: "errors: hello"
  replies: [{text: Hello.}]
"""
CRON = {
    "assistant_id": "deep_agent",
    "schedule": "0 0 1 1 *",
    "on_run_completed": "keep",
    "input": {"messages": []},
    "enabled": False,
}
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def http(shared_server: Served) -> Iterator[httpx.Client]:
    with shared_server.client() as http:
        yield http


@pytest.mark.parametrize(
    ("status", "method", "path", "sent"),
    [
        (400, "POST", "/run", {"content": "{", "headers": JSON}),
        (403, "POST", "/run", {"json": {"input": "x"}, "headers": {"Origin": "https://evil.example"}}),
        (404, "POST", "/run", {"json": {"input": "x", "thread_id": "none"}}),
        (404, "GET", "/run-lite/files", {}),
        (405, "OPTIONS", "/run-lite", {}),
        (405, "GET", "/mcp", {}),
        (413, "POST", "/run", {"json": {"input": "x" * (1 << 20)}}),
        (415, "POST", "/run", {"content": '{"input": "x"}', "headers": {"Content-Type": "text/plain"}}),
    ],
)
def test_every_error_has_the_same_shape(
    http: httpx.Client, status: int, method: str, path: str, sent: dict[str, Any]
) -> None:
    answer = http.request(method, path, **sent)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert answer.json().keys() == {"error"}
    assert answer.json()["error"]
    assert "Traceback" not in answer.text
    assert (status == 405) == ("allow" in answer.headers)


def test_missing_key_is_named(http: httpx.Client) -> None:
    answer = http.post("/run-lite", json={"input": "no model is set"})
    assert answer.status_code == 500
    assert answer.json()["error"].startswith("OPENAI_API_KEY is not set")


@pytest.mark.thorough
def test_locked_database_is_503(http: httpx.Client, shared_server: Served) -> None:
    """Another program locks the database longer than the time-out; afterwards runs work again."""
    holder = sqlite3.connect(shared_server.folder / ".code-agent" / "threads.sqlite", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    try:
        answer = http.post("/run", json={"input": "errors: hello"})
    finally:
        holder.execute("ROLLBACK")
        holder.close()
    assert answer.status_code == 503, answer.text
    assert "could not be written" in answer.json()["error"]
    assert answer.json().keys() == {"error"}
    assert http.post("/run", json={"input": "errors: hello"}).status_code == 200


def test_webhooks_are_refused(http: httpx.Client) -> None:
    thread = f"/threads/{http.post('/threads', json={}).json()['thread_id']}"
    for url in ("http://10.1.2.3/x", "https://example.com/x", "/runs"):
        run = {"assistant_id": "deep_agent", "input": {"messages": "hello"}, "webhook": url}
        cron = {**run, "schedule": "0 0 1 1 *"}
        for path, body in [("/runs/wait", run), (f"{thread}/runs", run), (f"{thread}/runs/crons", cron)]:
            answer = http.post(path, json=body)
            assert answer.status_code == 422, (path, answer.text)
            assert "ebhook" in answer.json()["detail"]
    assert http.get(f"{thread}/runs").json() == []


def test_cron_with_an_end_time_is_422(http: httpx.Client) -> None:
    """The server keeps `end_time` as a text, which stops its cron scheduler for everybody."""
    cron = http.post("/runs/crons", json=CRON).raise_for_status().json()["cron_id"]
    for method, path in (("POST", "/runs/crons"), ("PATCH", f"/runs/crons/{cron}")):
        refused = http.request(method, path, json=CRON | {"end_time": "2030-12-31T23:59:59Z"})
        assert (refused.status_code, "end_time" in refused.json()["error"]) == (422, True)
    http.delete(f"/runs/crons/{cron}").raise_for_status()


def test_unusable_body_is_422(http: httpx.Client) -> None:
    thread = http.post("/threads", json={}).json()["thread_id"]
    given = {"messages": [{"role": "user", "content": "errors: hello"}]}
    asked = {"assistant_id": "deep_agent", "input": given}
    assert http.post(f"/threads/{thread}/runs/wait", json=asked).is_success
    for path, body in [
        (f"/threads/{thread}/state", {"values": {"messages": [{"role": "tool", "content": "x"}]}}),
        (f"/threads/{thread}/history", {"before": {"checkpoint_id": "x"}}),
        ("/store/items/search", {"namespace_prefix": None}),
    ]:
        refused = http.post(path, json=body)
        assert (refused.status_code, "cannot use this" in refused.json()["error"]) == (422, True), path
    assert len(http.get(f"/threads/{thread}/state").json()["values"]["messages"]) == 2
