"""/run and LangGraph's own routes on the same threads: one at a time, and each finds what the other made."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from langgraph_server import Server, langgraph_dev
from served import served

from agent.tokens import new_token

pytestmark = pytest.mark.docker

SLOW = "echo begun >> /workspace/begun.txt; sleep 3; echo ended"
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
- when: a question
  replies:
  - tool_calls: [{{name: execute, args: {{command: "echo ran >> /workspace/one.txt"}}}}]
  - text: That is done.
"""
ALICE, ALICES = new_token("alice")
BOB, BOBS = new_token("bob")
SECOND = {"assistant_id": "deep_agent", "input": {"messages": [{"role": "user", "content": "the second"}]}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("turns")
    tokens = f"{ALICES},{BOBS}"
    with langgraph_dev(folder, SCRIPT, APPROVALS="auto", AUTH_TOKENS=tokens) as server:
        yield server


@pytest.fixture
def alice(server: Server) -> Iterator[httpx.Client]:
    with server.client(ALICE) as http:
        yield http


@pytest.fixture
def bob(server: Server) -> Iterator[httpx.Client]:
    with server.client(BOB) as http:
        yield http


@contextmanager
def at_work(server: Server, alice: httpx.Client) -> Iterator[tuple[str, Future[httpx.Response]]]:
    """A thread in which a new request of /run carries out its command, as LangGraph's routes find it."""
    with ThreadPoolExecutor(1) as pool, server.client(ALICE) as other:
        run = pool.submit(other.post, "/run", json={"input": "a slow one"})
        yield begun(server, busy(alice)), run
        run.result()


def busy(http: httpx.Client) -> str:
    """The one thread at work, once there is one."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if found := http.post("/threads/search", json={"status": "busy"}).json():
            assert len(found) == 1
            return str(found[0]["thread_id"])
        time.sleep(0.05)
    pytest.fail("no thread is at work")


def begun(server: Server, thread: str) -> str:
    """The thread, once its command runs."""
    file = server.folder / "workspace" / "threads" / thread / "begun.txt"
    deadline = time.monotonic() + 20
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert file.read_text() == "begun\n"
    return thread


def said(http: httpx.Client, thread: str) -> list[str]:
    answer = http.get(f"/threads/{thread}/state")
    assert answer.status_code == 200, answer.text
    return [each["content"] for each in answer.json()["values"]["messages"] if each["content"]]


def test_a_run_of_langgraph_waits_for_the_one_of_run(server: Server, alice: httpx.Client) -> None:
    with at_work(server, alice) as (thread, run):
        assert alice.post(f"/threads/{thread}/runs/wait", json=SECOND).status_code == 200
        assert run.done(), "it has waited"
        assert run.result().json()["output"] == "First answer."
    told = said(alice, thread)
    assert told.index("First answer.") < told.index("the second") < told.index("Second answer.")
    assert len(told) == 5  # with the result of the command
    assert alice.get(f"/threads/{thread}").json()["status"] == "idle"


def test_what_cannot_wait_is_refused_and_changes_nothing(server: Server, alice: httpx.Client) -> None:
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


def test_run_is_refused_while_a_run_of_langgraph_is_at_work(server: Server, alice: httpx.Client) -> None:
    thread = alice.post("/threads", json={}).json()["thread_id"]
    first = {**SECOND, "input": {"messages": [{"role": "user", "content": "a slow one"}]}}
    run = alice.post(f"/threads/{thread}/runs", json=first).json()["run_id"]
    begun(server, thread)
    answer = alice.post("/run", json={"input": "between", "thread_id": thread})
    assert answer.status_code == 409
    assert "at work" in answer.json()["error"]
    alice.get(f"/threads/{thread}/runs/{run}/join")
    assert alice.post("/run", json={"input": "after", "thread_id": thread}).status_code == 200
    told = said(alice, thread)
    assert "between" not in told
    assert told[-3:] == ["First answer.", "after", "Second answer."]


def test_a_stream_of_events_waits_too(server: Server, alice: httpx.Client) -> None:
    with at_work(server, alice) as (thread, run):
        given = {**SECOND, "stream_mode": ["values", "events"]}
        with alice.stream("POST", f"/threads/{thread}/runs/stream", json=given) as answer:
            text = answer.read().decode()
        assert "Second answer." in text
        assert run.done()
    assert said(alice, thread)[-3:] == ["First answer.", "the second", "Second answer."]


def test_a_client_that_leaves_frees_the_thread(server: Server, alice: httpx.Client) -> None:
    """The run of LangGraph that waits goes on when the request of /run is gone."""
    with pytest.raises(httpx.ReadTimeout), server.client(ALICE) as other:
        other.post("/run", json={"input": "a slow one"}, timeout=1.5)
    [found] = alice.post("/threads/search", json={"limit": 1, "sort_by": "created_at"}).json()
    thread = found["thread_id"]
    assert alice.post(f"/threads/{thread}/runs/wait", json=SECOND).status_code == 200
    assert said(alice, thread)[0] == "a slow one"
    assert alice.get(f"/threads/{thread}").json()["status"] == "idle"


def test_threads_of_run_are_listed_at_once(alice: httpx.Client, bob: httpx.Client) -> None:
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


def test_a_question_of_run_is_answered_by_langgraphs_routes_and_survives(tmp_path: Path) -> None:
    """Listed with what it waits for, also after the server was killed."""
    with served(tmp_path, SCRIPT, APPROVALS="ask") as running:
        asked = httpx.post(f"{running.url}/run", json={"input": "a question"}, timeout=60)
        assert asked.status_code == 202
        thread = asked.json()["thread_id"]
        before = httpx.get(f"{running.url}/threads/{thread}").json()
        assert before["status"] == "interrupted"
        [waiting] = before["interrupts"].values()
        assert [each["id"] for each in waiting] == [each["id"] for each in asked.json()["interrupts"]]
        running.kill()
        running.start()
        after = httpx.get(f"{running.url}/threads/{thread}").json()
        assert after["status"] == "interrupted"
        assert after["interrupts"] == before["interrupts"]
        assert after["metadata"] == before["metadata"]
        approve = {"assistant_id": "deep_agent", "command": {"resume": {"decisions": [{"type": "approve"}]}}}
        done = httpx.post(f"{running.url}/threads/{thread}/runs/wait", json=approve, timeout=60)
        assert done.json()["messages"][-1]["content"] == "That is done."
        assert (running.workspace / "one.txt").read_text() == "ran\n"
