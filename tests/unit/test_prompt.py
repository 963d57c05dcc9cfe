"""The whole first request, held by a snapshot; that it is true; and that it is no longer than a plain one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from deepagents import create_deep_agent
from deepagents.backends import CompositeBackend, FilesystemBackend
from langchain.agents.middleware import TodoListMiddleware
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import PrivateAttr
from syrupy.assertion import SnapshotAssertion

from agent.config import ROOT, load_settings
from agent.graph import build_graph
from libs.backends.docker import DockerExecutionBackend
from libs.models.scripted import Conversation, Reply, ScriptedChatModel, ToolUse

Request = tuple[list[BaseMessage], tuple[dict[str, Any], ...]]


class RecordingModel(ScriptedChatModel):
    """Plays its script and keeps the requests it was sent."""

    _requests: list[Request] = PrivateAttr(default_factory=list)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> ChatResult:
        self._requests.append((messages, self.bound_tools))
        return super()._generate(messages, stop, run_manager, **kwargs)


def recording(*conversations: Conversation) -> RecordingModel:
    return RecordingModel(conversations=conversations or (Conversation(replies=(Reply(text="Done."),)),))


def run(graph: Any) -> None:
    graph.invoke({"messages": [HumanMessage("hello")]}, {"configurable": {"thread_id": "1"}})


def system(request: Request) -> str:
    return "".join(message.text for message in request[0] if isinstance(message, SystemMessage))


def characters(request: Request) -> int:
    """Characters of system prompt and tool schemas: what every request carries, whatever is asked."""
    return len(system(request)) + sum(len(json.dumps(tool)) for tool in request[1])


def tool_names(request: Request) -> Sequence[str]:
    return [tool["function"]["name"] for tool in request[1]]


def first_request(tmp_path: Path, **overrides: Any) -> Request:
    model = recording()
    settings = load_settings(None, workspace_dir=tmp_path, **overrides)
    run(build_graph(model, checkpointer=InMemorySaver(), settings=settings))
    return model._requests[0]


def plain_request(tmp_path: Path) -> Request:
    """What deepagents sends with nothing of ours but the backend, the skills and the to-do list."""
    model = recording()
    skills = FilesystemBackend(ROOT / "skills", virtual_mode=True)
    backend = CompositeBackend(default=DockerExecutionBackend(tmp_path), routes={"/skills/": skills})
    plan = TodoListMiddleware()
    run(create_deep_agent(model, backend=backend, skills=["/skills/"], middleware=[plan]))
    return model._requests[0]


def test_the_first_request(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    request = first_request(tmp_path)
    tools = json.dumps([tool["function"] for tool in request[1]], indent=1, ensure_ascii=False)
    assert f"{system(request)}\n\n{tools}" == snapshot


def test_it_is_no_longer_than_a_plain_deep_agents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ours, plain = first_request(tmp_path), plain_request(tmp_path)
    assert sorted(tool_names(ours)) == sorted(tool_names(plain))
    with capsys.disabled():
        print(f"\nfirst request: {characters(ours):,} characters, plain deepagents {characters(plain):,}")
    assert characters(ours) <= characters(plain)


def test_it_says_nothing_false(tmp_path: Path) -> None:
    request = first_request(tmp_path)
    text = system(request) + json.dumps(request[1])
    for false in ("not accessible from the shell", "virtual mount", "host filesystem", "/large_tool_results"):
        assert false not in text
    assert "replaces it entirely" not in text
    for path in ("/workspace", "/data", "/scripts", "/results", "/tmp", "/skills"):
        assert f"{path}" in system(request)


def test_numbers_are_those_of_the_settings(tmp_path: Path) -> None:
    text = system(first_request(tmp_path, sandbox_timeout=7, sandbox_output_chars=1234, sandbox_tmp="64m"))
    assert "A command may take 7 seconds" in text
    assert "Of output over 1,234 characters" in text
    assert "(64 MB)" in text


def test_it_says_whether_a_person_is_asked(tmp_path: Path) -> None:
    assert "A person approves each command" in system(first_request(tmp_path, approvals="ask"))
    text = system(first_request(tmp_path, approvals="auto"))
    assert "without anybody's approval" in text
    assert "A person approves" not in text


def test_subagents_are_told_the_same(tmp_path: Path) -> None:
    call = ToolUse(name="task", args={"subagent_type": "general-purpose", "description": "count the rows"})
    model = recording(
        Conversation(when="count the rows", replies=(Reply(text="12"),)),
        Conversation(replies=(Reply(tool_calls=(call,)), Reply(text="There are 12."))),
    )
    settings = load_settings(None, workspace_dir=tmp_path)
    run(build_graph(model, checkpointer=InMemorySaver(), settings=settings))
    main, sub, _ = model._requests
    before_plan = system(main).split("\n\nKeep a plan")[0]
    assert system(sub).startswith(before_plan)
    assert "sees only your last message" in system(sub)
    assert set(tool_names(main)) - set(tool_names(sub)) == {"task", "write_todos"}
    described = {tool["function"]["name"]: tool for tool in main[1]}
    assert all(described[tool["function"]["name"]] == tool for tool in sub[1])
