"""The OpenAI client against a real HTTP server that follows the documented chat completions contract."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import openai
import pytest
from deepagents.backends import LocalShellBackend
from langchain_core.messages import HumanMessage, ToolMessage

from agent.config import Settings, build_model, load_settings
from agent.graph import build_graph
from libs.backends.workspace import WorkspaceBackend
from libs.models.deferred import ModelUnavailable

USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "execute", "arguments": json.dumps({"command": "echo from-the-model"})},
}


class Handler(BaseHTTPRequestHandler):
    """Calls `execute` once where it is offered, then answers with what it printed."""

    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append({"path": self.path, "auth": self.headers["Authorization"], **body})
        if self.headers["Authorization"] == "Bearer wrong":
            self.reply(
                401, {"error": {"message": "Incorrect API key provided", "type": "invalid_request_error"}}
            )
        elif body.get("stream"):
            self.stream(self.message(body), usage=bool(body.get("stream_options", {}).get("include_usage")))
        else:
            message = self.message(body)
            reason = "tool_calls" if "tool_calls" in message else "stop"
            choice = {"index": 0, "message": message, "finish_reason": reason}
            self.reply(200, {**self.head("chat.completion"), "choices": [choice], "usage": USAGE})

    def message(self, body: dict[str, Any]) -> dict[str, Any]:
        printed = [message["content"] for message in body["messages"] if message["role"] == "tool"]
        if body.get("tools") and not printed:
            return {"role": "assistant", "content": None, "tool_calls": [CALL]}
        return {
            "role": "assistant",
            "content": f"It printed: {printed[0].split()[0]}" if printed else "Hello.",
        }

    def head(self, kind: str) -> dict[str, Any]:
        return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": "served-model"}

    def reply(self, status: int, body: dict[str, Any]) -> None:
        payload = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def stream(self, message: dict[str, Any], *, usage: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        if calls := message.get("tool_calls"):
            function = calls[0]["function"]
            deltas.append(
                {"tool_calls": [{**calls[0], "index": 0, "function": {**function, "arguments": ""}}]}
            )
            for at in range(0, len(function["arguments"]), 5):
                piece = {"arguments": function["arguments"][at : at + 5]}
                deltas.append({"tool_calls": [{"index": 0, "function": piece}]})
        else:
            deltas += [{"content": word} for word in message["content"].split(" ")]
        for delta in deltas:
            self.event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        reason = "tool_calls" if calls else "stop"
        self.event({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        if usage:
            self.event({"choices": [], "usage": USAGE})
        self.wfile.write(b"data: [DONE]\n\n")

    def event(self, body: dict[str, Any]) -> None:
        self.wfile.write(f"data: {json.dumps({**self.head('chat.completion.chunk'), **body})}\n\n".encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)


def agent(tmp_path: Path, **settings: Any) -> Any:
    backend = WorkspaceBackend(LocalShellBackend(root_dir=tmp_path, virtual_mode=True))
    return build_graph(settings=load_settings(None, approvals="auto", **settings), backend=backend)


async def test_the_agent_works_with_a_server_that_needs_no_key(tmp_path: Path, server: Server) -> None:
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


async def test_the_agent_streams(tmp_path: Path, server: Server) -> None:
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


def test_the_agent_works_without_an_event_loop(tmp_path: Path, server: Server) -> None:
    graph = agent(tmp_path, openai_base_url=server.url)
    result = graph.invoke({"messages": [HumanMessage("go")]})
    assert result["messages"][-1].text == "It printed: from-the-model"


def test_model_may_name_the_provider(server: Server) -> None:
    model = build_model(load_settings(None, model="openai:named", openai_base_url=server.url))
    assert model.invoke("hi").text == "Hello."
    assert "".join(chunk.text for chunk in model.stream("hi")) == "Hello."
    assert {request["model"] for request in server.requests} == {"named"}


async def test_a_missing_key_is_named_at_the_first_call_and_nothing_is_sent(
    tmp_path: Path, server: Server
) -> None:
    graph = agent(tmp_path, model="openai:gpt-x")
    with pytest.raises(ModelUnavailable) as caught:
        await graph.ainvoke({"messages": [HumanMessage("go")]})
    assert str(caught.value).startswith("OPENAI_API_KEY is not set, and openai:gpt-x needs it. Set MODEL=")
    assert server.requests == []


def test_a_refused_key_is_the_servers_answer(server: Server) -> None:
    model = build_model(load_settings(None, openai_base_url=server.url, openai_api_key="wrong"))
    with pytest.raises(openai.AuthenticationError, match="Incorrect API key provided"):
        model.invoke("hi")
    assert len(server.requests) == 1
