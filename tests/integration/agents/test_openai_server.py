"""Clients of OpenAI and OpenRouter with an HTTP server that follows the chat completions contract."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deepagents.backends import LocalShellBackend
from langchain_core.messages import HumanMessage, ToolMessage

from agent.config import Settings, build_model, load_settings
from agent.graph import build_graph
from libs.backends.workspace_backend import WorkspaceBackend
from tests.servers.chat_server import Answer, ChatServer, serving

USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
CALL: dict[str, Any] = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "execute", "arguments": json.dumps({"command": "echo from-the-model"})},
}
HEAD = {"id": "chatcmpl-1", "created": 1, "model": "served-model", "system_fingerprint": "fp_1"}


def reply(body: dict[str, Any]) -> Answer:
    """Call `execute` once where it is offered, then answer with what it printed."""
    printed = [message["content"] for message in body["messages"] if message["role"] == "tool"]
    if body.get("tools") and not printed:
        message, reason = {"role": "assistant", "content": None, "tool_calls": [CALL]}, "tool_calls"
    else:
        text = f"It printed: {printed[0].split()[0]}" if printed else "Hello."
        message, reason = {"role": "assistant", "content": text}, "stop"
    if body.get("stream"):
        events = [*streamed(message, reason), {"choices": [], "usage": USAGE}]
        if not body.get("stream_options", {}).get("include_usage"):
            del events[-1]
        told = [json.dumps({**HEAD, "object": "chat.completion.chunk", **event}) for event in events]
        return 200, "".join(f"data: {event}\n\n" for event in [*told, "[DONE]"])
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return 200, {**HEAD, "object": "chat.completion", "choices": [choice], "usage": USAGE}


def streamed(message: dict[str, Any], reason: str) -> Iterator[dict[str, Any]]:
    """Yield a message in pieces: its words, or the arguments of its call."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    if message["content"] is None:
        function = CALL["function"]
        deltas.append({"tool_calls": [{**CALL, "index": 0, "function": {**function, "arguments": ""}}]})
        for at in range(0, len(function["arguments"]), 5):
            piece = {"arguments": function["arguments"][at : at + 5]}
            deltas.append({"tool_calls": [{"index": 0, "function": piece}]})
    else:
        deltas += [{"content": word} for word in message["content"].split(" ")]
    for delta in deltas:
        yield {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with serving(reply) as server:
        # The provider's package keeps its client, which outlives the event loop of a test.
        server.keep_alive = False
        yield server


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)


def agent(tmp_path: Path, **settings: Any) -> Any:
    backend = WorkspaceBackend(LocalShellBackend(root_dir=tmp_path, virtual_mode=True))
    return build_graph(settings=load_settings(None, approvals="auto", **settings), backend=backend)


async def test_agent_works_with_a_server_without_a_key(tmp_path: Path, server: ChatServer) -> None:
    graph = agent(tmp_path, openai_base_url=server.url, openai_model="served-model")
    result = await graph.ainvoke({"messages": [HumanMessage("go")]})
    printed = result["messages"][-2]
    assert isinstance(printed, ToolMessage)
    assert printed.artifact["exit_code"] == 0
    assert result["messages"][-1].text == "It printed: from-the-model"
    assert result["messages"][-1].usage_metadata["total_tokens"] == 18
    first, second = server.requests
    assert (first["path"], first["model"]) == ("/v1/chat/completions", "served-model")
    assert {tool["function"]["name"] for tool in first["tools"]} >= {"execute", "read_file", "task"}
    assert second["messages"][-1]["role"] == "tool"
    assert not first["stream"]


async def test_agent_streams(tmp_path: Path, server: ChatServer) -> None:
    graph = agent(tmp_path, openai_base_url=server.url, openai_api_key="a-key")
    pieces, usage = [], 0
    stream = graph.astream({"messages": [HumanMessage("go")]}, stream_mode="messages")
    async for message, metadata in stream:
        if metadata["langgraph_node"] == "model":
            pieces.append(message.text)
            usage += message.usage_metadata["total_tokens"] if message.usage_metadata else 0
    assert [piece for piece in pieces if piece] == ["It", "printed:", "from-the-model"]
    assert usage == 36
    assert all(request["stream"] for request in server.requests)
    assert {request["auth"] for request in server.requests} == {"Bearer a-key"}


def test_model_may_name_the_provider(server: ChatServer) -> None:
    model = build_model(load_settings(None, model="openai:named", openai_base_url=server.url))
    assert model.invoke("hi").text == "Hello."
    assert "".join(chunk.text for chunk in model.stream("hi")) == "Hello."
    assert {request["model"] for request in server.requests} == {"named"}


async def test_agent_works_with_openrouter(tmp_path: Path, server: ChatServer) -> None:
    env_file = tmp_path / ".env"
    lines = (
        "MODEL=openrouter:some/model:free",
        "OPENROUTER_API_KEY=key-of-openrouter",
        f"OPENROUTER_API_BASE={server.url}",
    )
    env_file.write_text("\n".join(lines))
    backend = WorkspaceBackend(LocalShellBackend(root_dir=tmp_path, virtual_mode=True))
    graph = build_graph(settings=load_settings(env_file, approvals="auto"), backend=backend)
    result = await graph.ainvoke({"messages": [HumanMessage("go")]})
    assert result["messages"][-1].text == "It printed: from-the-model"
    assert result["messages"][-1].usage_metadata["total_tokens"] == 18
    assert (
        "".join([chunk.text async for chunk in build_model(load_settings(env_file)).astream("hi")])
        == "Hello."
    )
    asked = {(request["path"], request["model"], request["auth"]) for request in server.requests}
    assert asked == {("/v1/chat/completions", "some/model:free", "Bearer key-of-openrouter")}
