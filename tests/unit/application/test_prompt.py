"""The first request of the deep agent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from deepagents import create_deep_agent
from deepagents.backends import CompositeBackend, FilesystemBackend
from langchain.agents.middleware import TodoListMiddleware
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import PrivateAttr
from syrupy.assertion import SnapshotAssertion

from agent.graph import build_graph
from agent.settings import ROOT, load_settings
from libs.backends.docker import DockerExecutionBackend
from libs.models.scripted_model import Conversation, Reply, ScriptedChatModel, ToolUse

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
    """Return the number of characters of the system prompt and the tool schemas."""
    return len(system(request)) + sum(len(json.dumps(tool)) for tool in request[1])


def tools(request: Request) -> dict[str, Any]:
    return {tool["function"]["name"]: tool["function"] for tool in request[1]}


def first_request(tmp_path: Path, **overrides: Any) -> Request:
    model = recording()
    settings = load_settings(None, workspace_dir=tmp_path, **overrides)
    run(build_graph(model, checkpointer=InMemorySaver(), settings=settings))
    return model._requests[0]


def plain_request(tmp_path: Path) -> Request:
    """Return the first request of plain deepagents with our backend, skills and to-do list."""
    model = recording()
    skills = FilesystemBackend(ROOT / "skills", virtual_mode=True)
    backend = CompositeBackend(default=DockerExecutionBackend(tmp_path), routes={"/skills/": skills})
    plan = TodoListMiddleware()
    run(create_deep_agent(model, backend=backend, skills=["/skills/"], middleware=[plan]))
    return model._requests[0]


def test_the_first_request(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    request = first_request(tmp_path)
    described = "".join(
        f"\n\n# {name}\n{tool['description']}\n{json.dumps(tool['parameters'], ensure_ascii=False)}"
        for name, tool in tools(request).items()
    )
    assert system(request) + described == snapshot
    assert {key for tool in tools(request).values() for key in tool} == {"name", "description", "parameters"}


def test_request_is_no_longer_than_that_of_deepagents(tmp_path: Path) -> None:
    ours, plain = first_request(tmp_path), plain_request(tmp_path)
    assert tools(ours).keys() == tools(plain).keys()
    assert characters(ours) <= characters(plain)


def test_numbers_are_those_of_the_settings(tmp_path: Path) -> None:
    chosen = {"sandbox_timeout": 7, "sandbox_output_chars": 1234, "sandbox_tmp": "64m", "approvals": "auto"}
    text = system(first_request(tmp_path, **chosen))
    for said in ("without anybody's approval", "may take 7 seconds", "over 1,234 characters", "(64 MB)"):
        assert said in text


def test_subagents_get_the_same_prompt(tmp_path: Path) -> None:
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
    own = {name: tools(main)[name] for name in ("task", "write_todos")}
    assert tools(main) == tools(sub) | own


def test_background_programs_are_promised_only_where_they_go_on(tmp_path: Path) -> None:
    said = {
        mode: tools(first_request(tmp_path, approvals=mode))["execute"]["description"]
        for mode in ("ask", "effects")
    }
    assert "background" in said["ask"]
    assert "background" not in said["effects"]
