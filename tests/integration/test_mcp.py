"""`/mcp` of a real `langgraph dev`, called with the protocol's official client over streamable HTTP."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from langgraph_sdk import get_client
from langgraph_server import Server, langgraph_dev
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from agent.config import ROOT

pytestmark = pytest.mark.docker

SCRIPT = """\
conversations:
- when: free
  replies:
  - tool_calls: [{name: write_file, args: {file_path: /results/free.txt, content: free}}]
  - text: That is done without a question.
  - text: You asked for a file.
- when: gated
  replies:
  - tool_calls: [{name: execute, args: {command: "echo ran >> /workspace/gated.txt"}}]
  - text: That is done.
- when: blocks
  replies:
  - text: "I look.\\n```bash\\necho ran >> /workspace/blocks.txt\\n```"
  - text: The blocks ran.
- when: two parts
  replies:
  - tool_calls:
    - {name: task, args: {subagent_type: general-purpose, description: left part}}
    - {name: task, args: {subagent_type: general-purpose, description: right part}}
  - text: Both are done.
- when: left part
  replies:
  - tool_calls: [{name: execute, args: {command: "echo left >> /workspace/parts.txt"}}]
  - text: Left is done.
- when: right part
  replies:
  - tool_calls: [{name: execute, args: {command: "echo right >> /workspace/parts.txt"}}]
  - text: Right is done.
- when: long
  replies:
  - tool_calls: [{name: execute, args: {command: "cd /workspace; echo > begun; sleep 7; echo > ended"}}]
  - text: At last.
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with langgraph_dev(tmp_path_factory.mktemp("mcp"), SCRIPT) as served:
        yield served


class Caller:
    """The official client, connected anew for each call: a connection belongs to the task that opened it."""

    def __init__(self, server: Server, mode: Any) -> None:
        self._server = server
        self._mode = mode

    async def list_tools(self) -> Any:
        async with Client(f"{self._server.url}/mcp", mode=self._mode) as client:
            return await client.list_tools()

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        async with Client(f"{self._server.url}/mcp", mode=self._mode) as client:
            return await client.call_tool(name, arguments)


@pytest.fixture(params=["auto", "legacy"])
def client(server: Server, request: pytest.FixtureRequest) -> Caller:
    """As clients of today speak, and as those before: with a handshake first."""
    return Caller(server, request.param)


def workspace(server: Server) -> Path:
    return server.folder / "workspace"


def text_of(result: Any) -> str:
    [block] = result.content
    return str(block.text)


def content(path: Path) -> str:
    return path.read_text() if path.exists() else ""


async def test_both_agents_are_listed_and_described(client: Caller) -> None:
    listed = (await client.list_tools()).tools
    served = json.loads((ROOT / "langgraph.json").read_text())["graphs"]
    assert {tool.name for tool in listed} == set(served)
    for tool in listed:
        assert len(tool.description or "") > 200
        assert set(tool.input_schema["properties"]) == {"input", "thread_id"}
        assert all(each["description"] for each in tool.input_schema["properties"].values())
        assert tool.annotations and tool.annotations.destructive_hint


async def test_a_call_runs_the_agent_and_a_thread_goes_on(server: Server, client: Caller) -> None:
    result = await client.call_tool("deep_agent", {"input": "free"})
    assert not result.is_error
    assert text_of(result) == "That is done without a question."
    told = result.structured_content
    assert (told["status"], told["output"], told["interrupts"]) == ("completed", text_of(result), [])
    assert content(workspace(server) / "results" / "free.txt") == "free"
    thread = told["thread_id"]
    again = await client.call_tool("deep_agent", {"input": "what was that?", "thread_id": thread})
    assert text_of(again) == "You asked for a file."
    assert again.structured_content["thread_id"] == thread
    stands = await client.call_tool("deep_agent", {"thread_id": thread})
    assert stands.structured_content == again.structured_content


@pytest.mark.parametrize(
    ("agent", "task", "name", "ran", "words"),
    [
        ("deep_agent", "gated", "execute", "gated.txt", "That is done."),
        ("code_agent", "blocks", "execute_code", "blocks.txt", "The blocks ran."),
    ],
)
async def test_a_gated_call_answers_with_what_it_waits_for(
    server: Server, client: Caller, agent: str, task: str, name: str, ran: str, words: str
) -> None:
    before = content(workspace(server) / ran)
    result = await client.call_tool(agent, {"input": task})
    assert not result.is_error
    told = result.structured_content
    assert told["status"] == "interrupted"
    [waiting] = told["interrupts"]
    [request] = waiting["value"]["action_requests"]
    assert (request["name"], len(request["digest"])) == (name, 64)
    assert f"echo ran >> /workspace/{ran}" in text_of(result)
    assert told["thread_id"] in text_of(result)
    assert told["answer"]["path"] in text_of(result)
    assert content(workspace(server) / ran) == before

    # It waits where the page and Studio look for it, and another task does not push it aside.
    async with get_client(url=server.url) as other:
        assert (await other.threads.get(told["thread_id"]))["status"] == "interrupted"
    refused = await client.call_tool(agent, {"input": "free", "thread_id": told["thread_id"]})
    assert refused.is_error and "waits" in text_of(refused)
    assert refused.structured_content["interrupts"] == told["interrupts"]

    answer = told["answer"]
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as web:
        answered = await web.request(answer["method"], answer["path"], json=answer["body"])
    assert answered.status_code == 200
    assert content(workspace(server) / ran) == before + "ran\n"
    after = await client.call_tool(agent, {"thread_id": told["thread_id"]})
    assert (after.structured_content["status"], text_of(after)) == ("completed", words)


async def test_questions_of_several_subagents_are_all_told_and_answered(
    server: Server, client: Caller
) -> None:
    before = content(workspace(server) / "parts.txt").count("\n")
    told = (await client.call_tool("deep_agent", {"input": "two parts"})).structured_content
    assert len(told["interrupts"]) == 2
    answer = told["answer"]
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as web:
        assert (await web.request(answer["method"], answer["path"], json=answer["body"])).is_success
    after = await client.call_tool("deep_agent", {"thread_id": told["thread_id"]})
    assert text_of(after) == "Both are done."
    assert content(workspace(server) / "parts.txt").count("\n") == before + 2


async def test_what_the_model_fails_with_is_told(client: Caller) -> None:
    result = await client.call_tool("deep_agent", {"input": "a task the script does not know"})
    assert result.is_error
    assert "no conversation fits the task" in text_of(result)
    assert result.structured_content["status"] == "error"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({}, "give input"),
        ({"input": "  "}, "input is empty"),
        ({"input": 5}, "input: "),
        ({"input": "free", "messages": []}, "messages: "),
        ({"thread_id": "no id"}, "thread_id: "),
        ({"thread_id": "00000000-0000-4000-8000-000000000000"}, "There is no thread"),
        ({"input": "free", "thread_id": "00000000-0000-4000-8000-000000000000"}, "There is no thread"),
    ],
    ids=str,
)
async def test_wrong_arguments_are_named(client: Caller, arguments: dict[str, Any], why: str) -> None:
    result = await client.call_tool("deep_agent", arguments)
    assert result.is_error and why in text_of(result)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_unknown_tool_is_an_error_of_the_protocol(server: Server, mode: Any) -> None:
    async with Client(f"{server.url}/mcp", mode=mode) as client:
        with pytest.raises(MCPError, match="There are deep_agent, code_agent, exec_agent"):
            await client.call_tool("shell", {"input": "free"})


async def test_a_thread_is_the_agents_that_began_it(client: Caller) -> None:
    thread = (await client.call_tool("deep_agent", {"input": "free"})).structured_content["thread_id"]
    result = await client.call_tool("code_agent", {"thread_id": thread})
    assert result.is_error and "no thread" in text_of(result)


@pytest.fixture(scope="module")
def ungated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with langgraph_dev(tmp_path_factory.mktemp("ungated"), SCRIPT, APPROVALS="auto") as served:
        yield served


async def begun(server: Server) -> str:
    """Wait until the long command has begun; the thread it is in."""
    await until((workspace(server) / "begun").exists)
    async with get_client(url=server.url) as other:
        [thread] = await other.threads.search(status="busy")
    return str(thread["thread_id"])


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_long_call_tells_that_it_is_at_work(ungated: Server, mode: Any) -> None:
    progress: list[str | None] = []

    async def seen(done: float, total: float | None, message: str | None) -> None:
        progress.append(message)

    async with Client(f"{ungated.url}/mcp", mode=mode) as client:
        running = asyncio.create_task(
            client.call_tool("deep_agent", {"input": "long"}, progress_callback=seen)
        )
        thread = await begun(ungated)
        stands = await client.call_tool("deep_agent", {"thread_id": thread})
        assert stands.structured_content["status"] == "running"
        refused = await client.call_tool("deep_agent", {"thread_id": thread, "input": "free"})
        assert refused.is_error and "is at work" in text_of(refused)
        assert text_of(await running) == "At last."
        assert progress[0] == "At work for 5 s"
    for name in ("begun", "ended"):
        (workspace(ungated) / name).unlink()


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_that_leaves_stops_the_command(ungated: Server, mode: Any) -> None:
    async def call() -> None:
        async with Client(f"{ungated.url}/mcp", mode=mode) as client:
            await client.call_tool("deep_agent", {"input": "long"})

    leaving = asyncio.create_task(call())
    thread = await begun(ungated)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    since = time.monotonic()
    async with get_client(url=ungated.url) as other:
        while (await other.threads.get(thread))["status"] == "busy":
            assert time.monotonic() - since < 5
            await asyncio.sleep(0.1)
    await asyncio.sleep(8)
    assert not (workspace(ungated) / "ended").exists()
    (workspace(ungated) / "begun").unlink()
    async with Client(f"{ungated.url}/mcp", mode=mode) as client:
        stopped = await client.call_tool("deep_agent", {"thread_id": thread})
    assert (stopped.structured_content["status"], stopped.is_error) == ("error", True)
    assert "stopped before its end" in text_of(stopped)


async def until(condition: Any, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


TOKENS = {"ann": "a" * 43, "bob": "b" * 43}


@pytest.fixture(scope="module")
def owned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    tokens = ",".join(f"{who}:{hashlib.sha256(it.encode()).hexdigest()}" for who, it in TOKENS.items())
    with langgraph_dev(tmp_path_factory.mktemp("owned"), SCRIPT, AUTH_TOKENS=tokens) as served:
        yield served


@asynccontextmanager
async def client_of(server: Server, who: str) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {TOKENS[who]}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(f"{server.url}/mcp", http_client=http)) as client,
    ):
        yield client


async def test_a_thread_is_its_owners(owned: Server) -> None:
    async with client_of(owned, "ann") as ann, client_of(owned, "bob") as bob:
        told = (await ann.call_tool("deep_agent", {"input": "gated"})).structured_content
        thread = told["thread_id"]
        for arguments in ({"thread_id": thread}, {"thread_id": thread, "input": "free"}):
            refused = await bob.call_tool("deep_agent", arguments)
            assert refused.is_error and "There is no thread" in text_of(refused)
            assert refused.structured_content is None
        answer = told["answer"]
        async with httpx.AsyncClient(base_url=owned.url, timeout=60) as web:
            for who, status in (("bob", 404), ("ann", 200)):
                headers = {"Authorization": f"Bearer {TOKENS[who]}"}
                answered = await web.post(answer["path"], json=answer["body"], headers=headers)
                assert answered.status_code == status
        after = await ann.call_tool("deep_agent", {"thread_id": thread})
        assert text_of(after) == "That is done."


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": f"Bearer {TOKENS['ann']}", "Origin": "https://evil.example"}, 403),
        ({"Authorization": f"Bearer {TOKENS['ann']}", "Host": "evil.example"}, 403),
    ],
    ids=str,
)
async def test_who_may_not_come_in_calls_nothing(owned: Server, headers: dict[str, str], status: int) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    accept = {"Accept": "application/json, text/event-stream"}
    async with httpx.AsyncClient(base_url=owned.url) as web:
        refused = await web.post("/mcp", json=call, headers={**accept, **headers})
    assert refused.status_code == status
    assert refused.json()["error"]
