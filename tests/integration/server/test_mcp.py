"""Tests `/mcp` of a real `langgraph dev` with the protocol's official client over streamable HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from langgraph_sdk import get_client
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from agent.settings import ROOT
from tests.servers.served import Served
from tests.support.owners import ALICE, BOB
from tests.support.waiting import eventually

pytestmark = pytest.mark.docker

SCRIPT = """\
conversations:
- when: "mcp: free"
  replies:
  - tool_calls: [{name: write_file, args: {file_path: /results/mcp-free.txt, content: free}}]
  - text: That is done without a question.
  - text: You asked for a file.
- when: "mcp: gated"
  replies:
  - tool_calls: [{name: execute, args: {command: "echo ran >> /workspace/mcp-gated.txt"}}]
  - text: That is done.
- when: "mcp: blocks"
  replies:
  - text: "I look.\\n```bash\\necho ran >> /workspace/mcp-blocks.txt\\n```"
  - text: The blocks ran.
- when: "mcp: long"
  replies:
  - tool_calls: [{name: execute, args: {command: "echo > begun; until [ -e go ]; do sleep 0.1; done"}}]
  - text: At last.
- when: "mcp: two parts"
  replies:
  - tool_calls:
    - {name: task, args: {subagent_type: general-purpose, description: "mcp: first part"}}
    - {name: task, args: {subagent_type: general-purpose, description: "mcp: second part"}}
  - text: Both are done.
- when: "mcp: first part"
  replies:
  - tool_calls: [{name: execute, args: {command: "echo first >> /workspace/mcp-parts.txt"}}]
  - text: First is done.
- when: "mcp: second part"
  replies:
  - tool_calls: [{name: execute, args: {command: "echo second >> /workspace/mcp-parts.txt"}}]
  - text: Second is done.
- when: "mcp: left alone"
  replies:
  - tool_calls:
    - {name: execute, args: {command: "echo > begun; while sleep 0.1; do echo >> beats; done"}}
  - text: At last.
"""


OWNED = {"APPROVALS": "auto"}


class Caller:
    """The official client, with a new connection for each call: it belongs to the task that opened it."""

    def __init__(self, server: Served) -> None:
        self._server = server

    async def list_tools(self) -> Any:
        async with Client(f"{self._server.url}/mcp") as client:
            return await client.list_tools()

    async def call_tool(self, name: str, arguments: dict[str, Any], mode: Any = "auto") -> Any:
        async with Client(f"{self._server.url}/mcp", mode=mode) as client:
            return await client.call_tool(name, arguments)


@pytest.fixture
def client(shared_server: Served) -> Caller:
    return Caller(shared_server)


def text_of(result: Any) -> str:
    [block] = result.content
    return str(block.text)


def content(path: Path) -> str:
    return path.read_text() if path.exists() else ""


async def test_all_agents_are_listed_with_descriptions(client: Caller) -> None:
    listed = (await client.list_tools()).tools
    served = json.loads((ROOT / "langgraph.json").read_text())["graphs"]
    assert {tool.name for tool in listed} == set(served)
    for tool in listed:
        assert len(tool.description or "") > 200
        assert set(tool.input_schema["properties"]) == {"input", "thread_id"}
        assert all(each["description"] for each in tool.input_schema["properties"].values())
        assert tool.annotations and tool.annotations.destructive_hint


async def test_call_runs_the_agent_and_can_continue_its_thread(shared_server: Served, client: Caller) -> None:
    result = await client.call_tool("deep_agent", {"input": "mcp: free"})
    assert not result.is_error
    assert text_of(result) == "That is done without a question."
    told = result.structured_content
    assert (told["status"], told["output"], told["interrupts"]) == ("completed", text_of(result), [])
    assert content(shared_server.workspace / "results" / "mcp-free.txt") == "free"
    thread = told["thread_id"]
    more = {"input": "what was that?", "thread_id": thread}
    again = await client.call_tool("deep_agent", more, mode="legacy")  # older clients begin with a handshake
    assert text_of(again) == "You asked for a file."
    assert again.structured_content["thread_id"] == thread
    stands = await client.call_tool("deep_agent", {"thread_id": thread})
    assert stands.structured_content == again.structured_content


@pytest.mark.parametrize(
    ("agent", "task", "name", "ran", "words"),
    [
        ("deep_agent", "mcp: gated", "execute", "mcp-gated.txt", "That is done."),
        ("code_agent", "mcp: blocks", "execute_code", "mcp-blocks.txt", "The blocks ran."),
    ],
)
async def test_gated_call_returns_its_question(
    shared_server: Served, client: Caller, agent: str, task: str, name: str, ran: str, words: str
) -> None:
    before = content(shared_server.workspace / ran)
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
    assert content(shared_server.workspace / ran) == before

    # The page and Studio find the question, and another task does not replace it.
    async with get_client(url=shared_server.url) as other:
        assert (await other.threads.get(told["thread_id"]))["status"] == "interrupted"
    refused = await client.call_tool(agent, {"input": "mcp: free", "thread_id": told["thread_id"]})
    assert refused.is_error and "waits" in text_of(refused)
    assert refused.structured_content["interrupts"] == told["interrupts"]

    answer = told["answer"]
    async with httpx.AsyncClient(base_url=shared_server.url, timeout=60) as web:
        answered = await web.request(answer["method"], answer["path"], json=answer["body"])
    assert answered.status_code == 200
    assert content(shared_server.workspace / ran) == before + "ran\n"
    after = await client.call_tool(agent, {"thread_id": told["thread_id"]})
    assert (after.structured_content["status"], text_of(after)) == ("completed", words)


async def test_error_of_the_model_is_in_the_result(client: Caller) -> None:
    result = await client.call_tool("deep_agent", {"input": "a task the script does not know"})
    assert result.is_error
    assert "no conversation fits the task" in text_of(result)
    assert result.structured_content["status"] == "error"


async def test_wrong_arguments_are_named(client: Caller) -> None:
    unknown = {"thread_id": "00000000-0000-4000-8000-000000000000"}
    arguments: list[tuple[dict[str, Any], str]] = [
        ({}, "give input"),
        ({"input": "  "}, "input is empty"),
        ({"input": 5}, "input: "),
        ({"input": "mcp: free", "messages": []}, "messages: "),
        ({"thread_id": "no id"}, "thread_id: "),
        (unknown, "There is no such thread"),
        (unknown | {"input": "mcp: free"}, "There is no such thread"),
    ]
    for given, why in arguments:
        result = await client.call_tool("deep_agent", given)
        assert result.is_error and why in text_of(result)


async def test_unknown_tool_is_a_protocol_error(shared_server: Served) -> None:
    async with Client(f"{shared_server.url}/mcp") as client:
        with pytest.raises(MCPError, match="There are deep_agent, code_agent, exec_agent"):
            await client.call_tool("shell", {"input": "mcp: free"})


def headers_of(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@asynccontextmanager
async def client_of(server: Served, token: str) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers=headers_of(token), timeout=60) as http,
        Client(streamable_http_client(f"{server.url}/mcp", http_client=http)) as client,
    ):
        yield client


async def begun(server: Served) -> tuple[str, Path]:
    """Wait until the long command has begun; return its thread and workspace."""
    async with asyncio.timeout(60), get_client(url=server.url, headers=headers_of(ALICE)) as other:
        while True:
            for thread in await other.threads.search(status="busy"):
                name = str(thread["thread_id"])
                folder = server.workspace / "threads" / name
                if (folder / "begun").exists():
                    return name, folder
            await asyncio.sleep(0.05)


@pytest.mark.thorough
async def test_long_call_reports_progress(server: Served) -> None:
    progress: list[str | None] = []

    async def seen(done: float, total: float | None, message: str | None) -> None:
        progress.append(message)

    async with client_of(server, ALICE) as client:
        running = asyncio.create_task(
            client.call_tool("deep_agent", {"input": "mcp: long"}, progress_callback=seen)
        )
        thread, folder = await begun(server)
        stands = await client.call_tool("deep_agent", {"thread_id": thread})
        assert stands.structured_content["status"] == "running"
        refused = await client.call_tool("deep_agent", {"thread_id": thread, "input": "mcp: free"})
        assert refused.is_error and "is at work" in text_of(refused)
        await asyncio.to_thread(eventually, lambda: progress)
        (folder / "go").touch()
        assert text_of(await running) == "At last."
        assert progress[0] == "At work for 5 s"


@pytest.mark.thorough
async def test_command_stops_when_the_mcp_client_leaves(server: Served) -> None:
    async def call() -> None:
        async with client_of(server, ALICE) as client:
            await client.call_tool("deep_agent", {"input": "mcp: left alone"})

    leaving = asyncio.create_task(call())
    thread, folder = await begun(server)
    beats = folder / "beats"
    await asyncio.to_thread(eventually, beats.exists)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    async with asyncio.timeout(60), get_client(url=server.url, headers=headers_of(ALICE)) as other:
        while (await other.threads.get(thread))["status"] == "busy":  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    written = content(beats)
    await asyncio.sleep(1)
    assert content(beats) == written
    async with client_of(server, ALICE) as client:
        stopped = await client.call_tool("deep_agent", {"thread_id": thread})
    assert (stopped.structured_content["status"], stopped.is_error) == ("error", True)
    assert "stopped before its end" in text_of(stopped)


async def test_mcp_thread_belongs_to_its_owner(server: Served) -> None:
    async with client_of(server, ALICE) as alice, client_of(server, BOB) as bob:
        told = (await alice.call_tool("deep_agent", {"input": "mcp: gated"})).structured_content
        assert told["status"] == "completed"
        for more in ({}, {"input": "mcp: free"}):
            refused = await bob.call_tool("deep_agent", {"thread_id": told["thread_id"], **more})
            assert refused.is_error and "There is no such thread" in text_of(refused)
            assert refused.structured_content is None
        after = await alice.call_tool("deep_agent", {"thread_id": told["thread_id"]})
        assert text_of(after) == "That is done."


@pytest.mark.thorough
async def test_questions_of_several_subagents_can_be_approved(shared_server: Served) -> None:
    client = Caller(shared_server)
    told = (await client.call_tool("deep_agent", {"input": "mcp: two parts"})).structured_content
    assert len(told["interrupts"]) == 2
    answer = told["answer"]
    async with httpx.AsyncClient(base_url=shared_server.url, timeout=60) as web:
        assert (await web.request(answer["method"], answer["path"], json=answer["body"])).is_success
    after = await client.call_tool("deep_agent", {"thread_id": told["thread_id"]})
    assert text_of(after) == "Both are done."
    assert sorted(content(shared_server.workspace / "mcp-parts.txt").split()) == ["first", "second"]
