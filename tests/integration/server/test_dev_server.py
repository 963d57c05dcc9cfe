"""Tests how `langgraph dev` starts and runs: offline, guarded against blocking, never reloading."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from agent.settings import ROOT
from tests.servers.served import Served

pytestmark = pytest.mark.docker

SCRIPT = """\
conversations:
- when: say something
  replies:
  - text: Something.
- when: write a program
  replies:
  - tool_calls: [{name: write_file, args: {file_path: /scripts/a.py, content: "print(1)"}}]
  - tool_calls: [{name: execute, args: {command: "sleep 0.5; touch /scripts/a.py; cp /scripts/*.py /data"}}]
  - text: It is written.
- when: from the terminal
  replies:
  - tool_calls: [{name: execute, args: {command: "echo from the server"}}]
  - text: That is done.
"""

TERMINAL = str(uuid4())
"""A thread that the terminal began before the server started."""

BLOCKS = """\
import time
from langgraph.graph import MessagesState, StateGraph

async def block(state: MessagesState) -> dict:
    time.sleep(0.01)
    return {}

builder = StateGraph(MessagesState)
builder.add_node("block", block)
builder.add_edge("__start__", "block")
graph = builder.compile()
"""

OFFLINE = """\
import fcntl, json, socket, struct, sys
from pathlib import Path
import httpx
with socket.socket() as any_socket:  # the loopback interface is brought up, and there is no other
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh22x", b"lo", 0x49))
assert [name for _, name in socket.if_nameindex()] == ["lo"]
from tests.servers.served import served
told = {}
with served(Path(sys.argv[1]), sys.argv[2], APPROVALS="ask") as server:
    with httpx.Client(base_url=server.url, timeout=30) as client:
        told["info"] = client.get("/info").json()
        told["assistants"] = [each["graph_id"] for each in client.post("/assistants/search", json={}).json()]
        thread = client.post("/threads", json={}).json()["thread_id"]
        given = {"messages": [{"role": "user", "content": "say something"}]}
        body = {"assistant_id": "deep_agent", "input": given}
        told["state"] = client.post(f"/threads/{thread}/runs/wait", json=body).json()
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    server = Served(folder, SCRIPT, APPROVALS="ask")
    server.serve_graph("blocks", BLOCKS)
    done = subprocess.run(
        [Path(sys.executable).with_name("code-agent"), "run", "--thread", TERMINAL, "from the terminal"],
        cwd=folder, env=server.environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 3, done.stdout + done.stderr
    server.start()
    yield server
    server.end()


@pytest.fixture
async def client(server: Served) -> AsyncIterator[LangGraphClient]:
    async with get_client(url=server.url) as client:
        yield client


def said(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


@pytest.mark.thorough
def test_server_starts_without_network(tmp_path: Path) -> None:
    done = subprocess.run(
        ["unshare", "--net", sys.executable, "-c", OFFLINE, tmp_path, SCRIPT],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["info"]["version"]
    assert {"deep_agent", "code_agent", "exec_agent"} <= set(told["assistants"])
    assert told["state"]["messages"][-1]["content"] == "Something."


@pytest.mark.thorough
async def test_blocking_call_on_the_event_loop_is_refused(client: LangGraphClient) -> None:
    thread = (await client.threads.create())["thread_id"]
    with pytest.raises(Exception, match="BlockingError"):
        await client.runs.wait(thread, "blocks", input=said("x"))


@pytest.mark.thorough
async def test_written_program_does_not_restart_the_server(client: LangGraphClient, server: Served) -> None:
    thread = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread, "deep_agent", input=said("write a program"))
    approve = {"resume": {"decisions": [{"type": "approve"}]}}
    result: Any = await client.runs.wait(thread, "deep_agent", command=approve)
    assert result["messages"][-1]["content"] == "It is written."
    assert (server.workspace / "data" / "a.py").read_text() == "print(1)"
    await asyncio.sleep(1)
    assert server.process is not None
    assert server.process.poll() is None
    assert server.log().count("Application started up") == 1


@pytest.mark.parametrize("reload", ["", "1"])
def test_make_dev_has_these_options(reload: str) -> None:
    command = command_of_make_dev(reload)
    assert "--no-reload" in command
    assert "--allow-blocking" not in command
    assert ("watchfiles" in command) is bool(reload)


def command_of_make_dev(reload: str) -> str:
    """Return the command with which `make dev` starts the server."""
    command = ["make", "-n", "dev", f"RELOAD={reload}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    return next(line for line in done.stdout.splitlines() if "langgraph dev" in line)


async def test_terminal_thread_can_be_answered_over_http(client: LangGraphClient) -> None:
    """The server restores threads that another program wrote to the database."""
    [found] = await client.threads.search(status="interrupted")
    assert found["thread_id"] == TERMINAL
    assert (found["metadata"] or {})["graph_id"] == "deep_agent"
    [asked] = [each for given in found["interrupts"].values() for each in given]
    assert asked["value"]["action_requests"][0]["args"] == {"command": "echo from the server"}
    approve = {"resume": {"decisions": [{"type": "approve"}]}}
    result: Any = await client.runs.wait(TERMINAL, "deep_agent", command=approve)
    assert [each["content"] for each in result["messages"]][-1] == "That is done."
    assert "from the server" in result["messages"][-2]["content"]
