"""Tests /run and LangGraph's routes on the same threads: one run at a time, and both see all messages."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.servers.served import Served
from tests.support.owners import ALICE
from tests.support.waiting import eventually

pytestmark = [pytest.mark.docker, pytest.mark.thorough]

SLOW = "echo begun >> begun.txt; until [ -e go ]; do sleep 0.05; done; echo ended"
SCRIPT = f"""\
conversations:
- when: a slow one
  replies:
  - tool_calls: [{{name: execute, args: {{command: "{SLOW}"}}}}]
  - text: First answer.
  - text: Second answer.
  - text: Third answer.
- when: a quick one
  replies:
  - text: Here I am.
  - text: Here I am again.
"""
OWNED = {"APPROVALS": "auto"}
SECOND = {"assistant_id": "deep_agent", "input": {"messages": [{"role": "user", "content": "the second"}]}}


@contextmanager
def at_work(server: Served, alice: httpx.Client) -> Iterator[tuple[str, Future[httpx.Response]]]:
    """Start a request of /run; yield its thread, found by LangGraph's routes, while its command runs.

    The command ends when its workspace has the file `go`, at the latest with the context.
    """
    with ThreadPoolExecutor(1) as pool, server.client(ALICE) as other:
        run = pool.submit(other.post, "/run", json={"input": "a slow one"})
        thread = begun(server, busy(alice))
        try:
            yield thread, run
        finally:
            (workspace(server, thread) / "go").touch()
        run.result()


def busy(http: httpx.Client) -> str:
    """Wait for the only busy thread and return its id."""
    found: list[str] = []

    def search() -> list[str]:
        found[:] = [
            each["thread_id"] for each in http.post("/threads/search", json={"status": "busy"}).json()
        ]
        return found

    eventually(search, 60)
    [thread] = found
    return thread


def workspace(server: Served, thread: str) -> Path:
    return server.folder / "workspace" / "threads" / thread


def begun(server: Served, thread: str) -> str:
    """Wait until the thread's command runs; return the thread."""
    file = workspace(server, thread) / "begun.txt"
    # The shell makes the file before its text is written.
    eventually(lambda: file.exists() and file.read_text(), 60)
    assert file.read_text() == "begun\n"
    return thread


def said(http: httpx.Client, thread: str) -> list[str]:
    answer = http.get(f"/threads/{thread}/state")
    assert answer.status_code == 200, answer.text
    return [each["content"] for each in answer.json()["values"]["messages"] if each["content"]]


def test_langgraph_run_waits_for_a_run_request(server: Served, alice: httpx.Client) -> None:
    with at_work(server, alice) as (thread, run), ThreadPoolExecutor(1) as pool:
        second = pool.submit(alice.post, f"/threads/{thread}/runs/wait", json=SECOND)
        eventually(lambda: alice.get(f"/threads/{thread}/runs").json())
        with pytest.raises(TimeoutError):
            second.result(1)
        (workspace(server, thread) / "go").touch()
        assert second.result().status_code == 200
        assert run.result().json()["output"] == "First answer."
    told = said(alice, thread)
    assert told.index("First answer.") < told.index("the second") < told.index("Second answer.")
    assert len(told) == 5  # with the result of the command
    assert alice.get(f"/threads/{thread}").json()["status"] == "idle"


def test_other_strategies_are_refused_during_a_run_request(server: Served, alice: httpx.Client) -> None:
    with at_work(server, alice) as (thread, run):
        path = f"/threads/{thread}"
        for strategy in ("reject", "interrupt", "rollback"):
            answer = alice.post(f"{path}/runs", json={**SECOND, "multitask_strategy": strategy})
            assert answer.status_code == 409, answer.text
            assert "/run" in answer.json()["detail"]
        state = {"values": {"messages": [{"role": "user", "content": "slipped in"}]}}
        assert alice.post(f"{path}/state", json=state).status_code == 409
        assert alice.delete(path).status_code == 409
        assert alice.post("/run", json={"input": "again", "thread_id": thread}).status_code == 409
        assert not run.done()
    assert run.result().json()["output"] == "First answer."
    assert alice.get(f"{path}/runs").json() == []
    assert said(alice, thread)[0::2] == ["a slow one", "First answer."]
    assert alice.post(f"{path}/state", json=state).status_code == 200
    assert alice.delete(path).is_success


def test_run_request_is_409_during_a_langgraph_run(server: Served, alice: httpx.Client) -> None:
    thread = alice.post("/threads", json={}).json()["thread_id"]
    first = {**SECOND, "input": {"messages": [{"role": "user", "content": "a slow one"}]}}
    run = alice.post(f"/threads/{thread}/runs", json=first).json()["run_id"]
    begun(server, thread)
    answer = alice.post("/run", json={"input": "between", "thread_id": thread})
    assert answer.status_code == 409
    assert "at work" in answer.json()["error"]
    (workspace(server, thread) / "go").touch()
    alice.get(f"/threads/{thread}/runs/{run}/join")
    assert alice.post("/run", json={"input": "after", "thread_id": thread}).status_code == 200
    told = said(alice, thread)
    assert "between" not in told
    assert told[-3:] == ["First answer.", "after", "Second answer."]


def test_threads_of_run_are_listed_by_langgraphs_routes(alice: httpx.Client, bob: httpx.Client) -> None:
    thread = alice.post("/run", json={"input": "a quick one"}).json()["thread_id"]
    row = alice.get(f"/threads/{thread}").json()
    assert row["metadata"] == {"graph_id": "deep_agent", "owner": "alice"}
    assert row["status"] == "idle"
    assert [each["content"] for each in row["values"]["messages"]] == ["a quick one", "Here I am."]
    found = alice.post("/threads/search", json={"metadata": {"graph_id": "deep_agent"}}).json()
    assert thread in {each["thread_id"] for each in found}
    assert alice.post(f"/threads/{thread}/runs/wait", json=SECOND).status_code == 200
    assert alice.post("/run", json={"input": "on", "thread_id": thread}).status_code in {200, 500}
    for path in ("", "/state", "/history"):
        assert bob.get(f"/threads/{thread}{path}").status_code == 404
    assert thread not in bob.post("/threads/search", json={}).text
    assert bob.post("/threads", json={"thread_id": thread}).status_code == 409
