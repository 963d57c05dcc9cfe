"""The call that summarizes a long conversation is bound like other calls of the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deepagents.backends import LocalShellBackend
from langchain_core.messages import HumanMessage

from agent.config import load_settings
from agent.graph import build_graph
from libs.backends.workspace_backend import WorkspaceBackend
from libs.models.model_errors import ModelFailed
from tests.servers.chat_server import HOLD, Answer, ChatServer, serving

KEY = "sk-canary-Ab12Cd34Ef56"
CONTENT = "a line that is kept\n" * 200
CALLS = 12
HEAD = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m"}
USAGE = {"prompt_tokens": 80, "completion_tokens": 20, "total_tokens": 100}
TOO_LONG = (400, {"error": {"message": "the request exceeds the available context size", "code": 400}})


def said(message: dict[str, Any], **more: Any) -> Answer:
    message = {"role": "assistant", "content": None, **message}
    return 200, {**HEAD, "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], **more}


def summarized_by(answer: Answer) -> Any:
    """Return replies of a model that writes files until its context is full, and answers with a summary."""

    def reply(body: dict[str, Any]) -> Answer:
        messages = body["messages"]
        if "tools" not in body:
            return answer
        if len(messages) > 2 * CALLS:
            return TOO_LONG
        if "summarized" in messages[1]["content"]:
            return said({"content": messages[1]["content"]}, usage=USAGE)
        args = json.dumps({"file_path": f"/f{len(messages)}", "content": CONTENT})
        function = {"name": "write_file", "arguments": args}
        call = {"id": f"call_{len(messages)}", "type": "function", "function": function}
        return said({"tool_calls": [call]}, usage=USAGE)

    return reply


async def run(folder: Path, server: ChatServer, **settings: Any) -> Any:
    server.keep_alive = False
    known = load_settings(
        None, approvals="auto", openai_base_url=server.url, openai_api_key=KEY, openai_model="m", **settings
    )
    backend = WorkspaceBackend(
        LocalShellBackend(root_dir=folder, virtual_mode=True), artifacts_root="/artifacts"
    )
    return await build_graph(settings=known, backend=backend).ainvoke({"messages": [HumanMessage("go")]})


@pytest.mark.thorough
async def test_summary_ends_with_the_time_of_the_run(tmp_path: Path) -> None:
    with serving(summarized_by(HOLD)) as server:
        assert (await run(tmp_path, server, run_max_seconds=4))["status"] == "budget_seconds"
    assert sum("tools" not in request for request in server.requests) == 1


async def test_error_of_a_summary_is_explained_and_redacted(tmp_path: Path) -> None:
    refusal = (401, {"error": {"message": f"no such key: {KEY}"}})
    told = r"no such key: \[REDACTED\]"
    with serving(summarized_by(refusal)) as server, pytest.raises(ModelFailed, match=told):
        await run(tmp_path, server)


async def test_summary_names_the_saved_conversation(tmp_path: Path) -> None:
    with serving(summarized_by(said({"content": "a summary"}))) as server:
        text = (await run(tmp_path, server))["messages"][-1].text
    assert "a summary" in text
    [history] = (tmp_path / "artifacts" / "conversation_history").iterdir()
    assert f"/artifacts/conversation_history/{history.name}" in text


async def test_conversation_that_cannot_be_shortened_is_an_error_that_clients_see(tmp_path: Path) -> None:
    with serving(lambda _: TOO_LONG) as server, pytest.raises(ModelFailed, match="does not fit the model's"):
        await run(tmp_path, server)
