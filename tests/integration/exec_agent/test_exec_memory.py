"""The memory of the one-tool agent on a server: owners, and copies and deletion with the thread."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from agent.settings.token_settings import new_token
from tests.servers.served import Served, served

pytestmark = pytest.mark.docker

SCRIPT = """\
conversations:
- when: ""
  replies: [{text: I keep it in mind.}, {text: I do., }, {text: Yes.}, {text: Yes.}]
"""
ANN, BOB = new_token("ann"), new_token("bob")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    tokens = f"{ANN[1]},{BOB[1]}"
    with served(tmp_path_factory.mktemp("mem"), SCRIPT, AUTH_TOKENS=tokens, MEMORY_SCOPE="owner") as server:
        yield server


def kept(server: Served, thread: str) -> list[tuple[str, str]]:
    """Return owner and role of each saved message of a thread."""
    with closing(sqlite3.connect(server.folder / ".code-agent" / "memory.sqlite")) as connection:
        rows = connection.execute("SELECT owner, role FROM thread_messages WHERE thread = ?", [thread])
        return [tuple(row) for row in rows]


def said(server: Served, token: str, text: str, **more: Any) -> str:
    """Send a message in a new thread and return the thread's id."""
    with server.client(token) as client:
        thread = str(client.post("/threads", json={}).json()["thread_id"])
        body = {"assistant_id": "exec_agent", "input": {"messages": [{"role": "user", "content": text}]}}
        answer = client.post(f"/threads/{thread}/runs/wait", json=body | more)
        assert answer.status_code == 200, answer.text
        return thread


@pytest.mark.thorough
def test_client_cannot_choose_the_owner(server: Served) -> None:
    assert set(kept(server, said(server, ANN[0], "The boathouse opens with 4711."))) == {
        ("ann", "user"),
        ("ann", "assistant"),
    }
    for forged in (
        {"metadata": {"owner": "ann"}},
        {"config": {"metadata": {"owner": "ann"}}},
        {"config": {"configurable": {"owner": "ann"}}},
    ):
        thread = said(server, BOB[0], "What opens the boathouse?", **forged)
        assert {owner for owner, _ in kept(server, thread)} == {"bob"}, forged
    with server.client(BOB[0]) as client:
        run = client.post("/run", json={"input": "What opens it?", "agent": "exec"}).json()
    assert {owner for owner, _ in kept(server, run["thread_id"])} == {"bob"}


@pytest.mark.thorough
def test_memory_is_copied_and_deleted_with_the_thread(server: Served) -> None:
    thread = said(server, ANN[0], "The boathouse opens with 4711.")
    with server.client(ANN[0]) as client:
        copy = client.post(f"/threads/{thread}/copy").json()["thread_id"]
        before = kept(server, thread)
        assert before
        assert kept(server, copy) == before
        assert client.delete(f"/threads/{thread}").status_code == 204
        assert kept(server, thread) == []
        assert kept(server, copy) == before
