"""Tests a second message during a run, with every strategy of the server, on both databases."""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import NotFoundError

from tests.servers.postgres_server import PASSWORD, postgres
from tests.servers.served import Served, free_port, served

pytestmark = [pytest.mark.docker, pytest.mark.thorough]

SCRIPT = """\
conversations:
- when: slow
  replies:
  - tool_calls:
    - name: execute
      args:
        command: "echo begun >> begun.txt; until [ -e go ]; do sleep 0.05; done; echo ended"
  - text: First answer.
  - text: Second answer.
  - text: Third answer.
- when: second
  replies:
  - text: I only know of the second.
"""

APPROVE = {"resume": {"decisions": [{"type": "approve"}]}}
SECOND = {"messages": [{"role": "user", "content": "the second"}]}


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    if request.param == "sqlite":
        with served(folder, SCRIPT, APPROVALS="ask") as running:
            yield running
        return
    with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as place:
        Path(place).chmod(0o755)
        with postgres(Path(place) / "s") as database:
            url = database.database()
            with served(folder, SCRIPT, APPROVALS="ask", APP_ENV="production", DATABASE_URL=url) as running:
                yield running
            # It kept nothing in a file, and nobody was shown the password.
            assert not (folder / ".code-agent" / "threads.sqlite").exists()
            with psycopg.connect(url) as connection:
                counted = connection.execute("SELECT count(*) FROM checkpoints").fetchone()
            assert counted is not None
            assert counted[0] > 10
            assert PASSWORD not in running.log()


@pytest.fixture
async def client(server: Served) -> AsyncIterator[LangGraphClient]:
    async with get_client(url=server.url) as client:
        yield client


async def at_work(client: LangGraphClient, server: Served) -> tuple[str, str]:
    """Return a thread whose approved command runs until the workspace has the file `go`, and its run."""
    begun = server.workspace / "begun.txt"
    before = begun.read_text() if begun.exists() else ""
    thread = (await client.threads.create())["thread_id"]
    first = {"messages": [{"role": "user", "content": "slow"}]}
    await client.runs.wait(thread, "deep_agent", input=first)
    run = await client.runs.create(thread, "deep_agent", command=APPROVE)
    async with asyncio.timeout(60):
        while not begun.exists() or begun.read_text() == before:  # noqa: ASYNC110 a file has no event
            await asyncio.sleep(0.05)
    return thread, run["run_id"]


async def texts(client: LangGraphClient, thread: str) -> list[str]:
    values: Any = (await client.threads.get_state(thread))["values"]
    return [each["content"] for each in values["messages"]]


async def test_rolled_back_approval_is_asked_again(client: LangGraphClient, server: Served) -> None:
    thread, run = await at_work(client, server)
    await client.runs.cancel(thread, run, wait=True, action="rollback")
    state = await client.threads.get_state(thread)
    [pending] = state["interrupts"]
    assert "begun.txt" in pending["value"]["action_requests"][0]["args"]["command"]
    # A run without an answer asks again: the rolled back answer is gone.
    begun = (server.workspace / "begun.txt").read_text()
    await client.runs.wait(thread, "deep_agent", input=None)
    [again] = (await client.threads.get_state(thread))["interrupts"]
    assert again["id"] == pending["id"]
    refusal = {"resume": {"decisions": [{"type": "reject", "message": "not now"}]}}
    await client.runs.wait(thread, "deep_agent", command=refusal)
    assert (await texts(client, thread))[-1] == "First answer."
    assert (server.workspace / "begun.txt").read_text() == begun


async def test_killed_server_restores_its_threads(client: LangGraphClient, server: Served) -> None:
    server.workspace.mkdir(exist_ok=True)
    (server.workspace / "go").touch()
    thread = (await client.threads.create(metadata={"title": "mine"}))["thread_id"]
    empty = (await client.threads.create(metadata={"title": "empty"}))["thread_id"]
    gone = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread, "deep_agent", input={"messages": [{"role": "user", "content": "slow"}]})
    await client.threads.update(thread, metadata={"title": "new"})
    mine = await client.assistants.create("deep_agent", name="mine")
    await client.threads.delete(gone)
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as http:
        asked = (await http.post("/run", json={"input": "slow"})).json()
    listed = await client.threads.get(asked["thread_id"])
    assert [each["id"] for each in asked["interrupts"]] == [
        each["id"] for given in listed["interrupts"].values() for each in given
    ]
    before = await client.threads.get(thread)
    server.kill()
    await asyncio.to_thread(server.start)
    async with get_client(url=server.url) as again:
        after = await again.threads.get(thread)
        assert after["metadata"] == before["metadata"]
        assert (after["metadata"] or {})["title"] == "new"
        for name in ("status", "interrupts", "values", "created_at"):
            assert after[name] == before[name]  # type: ignore[literal-required]
        assert (await again.threads.get(empty))["metadata"] == {"title": "empty"}
        with pytest.raises(NotFoundError):
            await again.threads.get(gone)
        assert (await again.assistants.get(mine["assistant_id"]))["name"] == "mine"
        [run] = await again.runs.list(thread)
        assert run["status"] == "success"
        await again.runs.wait(thread, "deep_agent", command=APPROVE)
        assert (await texts(again, thread))[-1] == "First answer."
        # A question of /run can be answered through LangGraph's routes and through /run.
        found = await again.threads.get(asked["thread_id"])
        for name in ("status", "interrupts", "metadata"):
            assert found[name] == listed[name]  # type: ignore[literal-required]
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as http:
            wrong = await http.post(f"/run/{asked['thread_id']}/resume", json={"decisions": []})
            assert wrong.json()["interrupts"] == asked["interrupts"]
        await again.runs.wait(asked["thread_id"], "deep_agent", command=APPROVE)
        assert (await texts(again, asked["thread_id"]))[-1] == "First answer."


@pytest.mark.parametrize("another_port", [True, False], ids=["another port", "same port"])
def test_second_server_does_not_start(server: Served, *, another_port: bool) -> None:
    """A second server would carry out the first server's runs again. The folder is named before the port."""
    command = [*server.command[:-1], str(free_port() if another_port else server.port)]
    done = subprocess.run(
        command, cwd=server.folder, env=server.environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    said = done.stdout + done.stderr
    assert said.count("Another server works in") == 1
    assert not [each for each in ("Traceback", "is taken", "choose another port") if each in said]
    pid = server.process.pid if server.process else 0
    assert done.stderr.splitlines()[-1] == (
        f"Another server works in {server.folder}: process {pid} (langgraph, port {server.port}). "
        f"End it with `kill {pid}`, or start this one in another folder."
    )
