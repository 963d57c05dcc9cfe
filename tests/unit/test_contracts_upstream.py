"""What this project relies on in the packages it stands on, and the versions for which it was seen to hold.

Most of it is internal to them and may change without notice: a failure here says which of our parts to
look at before that part fails in a run.
"""

from __future__ import annotations

import inspect
import re
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from deepagents import create_deep_agent
from deepagents.backends import CompositeBackend, LocalShellBackend
from deepagents.backends.protocol import (
    BackendProtocol,
    ExecuteResponse,
    FileUploadResponse,
    SandboxBackendProtocol,
    execute_accepts_timeout,
)
from deepagents.backends.sandbox import BaseSandbox
from deepagents.middleware._utils import is_anthropic_chat_model
from deepagents.middleware.filesystem import FilesystemMiddleware, supports_execution
from deepagents.middleware.subagents import GENERAL_PURPOSE_SUBAGENT
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, TodoListMiddleware
from langchain.agents.middleware.types import AgentMiddleware, ModelRequest
from langchain.chat_models import init_chat_model
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from packaging.requirements import Requirement
from pydantic import SecretStr

from agent.config import ROOT
from agent.models import RealModel
from libs.backends.read_only import ReadOnlyBackend
from libs.backends.workspace import WorkspaceBackend
from libs.models.deferred import DeferredChatModel
from libs.models.scripted import Conversation, Reply, ScriptedChatModel, ToolUse

SEEN_TO_HOLD = {
    "deepagents": "0.7",
    "langchain": "1",
    "langchain-core": "1",
    "langchain-openai": "1",
    "langgraph": "1",
    "langgraph-api": "0.16",
    "langgraph-checkpoint": "4",
    "langgraph-sdk": "0",
}
"""Package and the leading part of its version."""


def scripted(*replies: Reply) -> ScriptedChatModel:
    return ScriptedChatModel(conversations=(Conversation(replies=replies),))


def calling(name: str, **args: Any) -> Reply:
    return Reply(tool_calls=(ToolUse(name=name, args=args),))


# versions


@pytest.mark.parametrize("package", SEEN_TO_HOLD)
def test_the_installed_version_is_one_this_was_seen_to_hold_for(package: str) -> None:
    assert re.match(rf"{re.escape(SEEN_TO_HOLD[package])}(\.|$)", version(package)), version(package)


def test_the_project_allows_only_installed_major_versions() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for requirement in map(Requirement, project["dependencies"]):
        assert requirement.specifier.contains(version(requirement.name)), requirement
        assert any(part.operator == "<" for part in requirement.specifier), requirement


# backends of deepagents


@pytest.fixture
def shell(tmp_path: Path) -> LocalShellBackend:
    return LocalShellBackend(root_dir=tmp_path, virtual_mode=True)


def test_composite_routes_every_single_path_through_one_method(shell: LocalShellBackend) -> None:
    """`WorkspaceBackend` normalises there, and nowhere else for these operations."""
    asked: list[str] = []

    class Recording(CompositeBackend):
        def _get_backend_and_key(self, key: str) -> tuple[BackendProtocol, str]:
            asked.append(key)
            return super()._get_backend_and_key(key)

    backend = Recording(shell, {})
    backend.write("/write", "x")
    backend.read("/read")
    backend.edit("/edit", "x", "y")
    backend.upload_files([("/upload", b"")])
    backend.download_files(["/download"])
    backend.delete("/delete")
    assert asked == ["/write", "/read", "/edit", "/upload", "/download", "/delete"]


def test_composite_alone_lets_other_spellings_miss_their_route(shell: LocalShellBackend) -> None:
    backend = CompositeBackend(shell, {"/skills/": ReadOnlyBackend(shell, "/skills")})
    assert backend._get_backend_and_key("/skills/x")[0] is not shell
    assert backend._get_backend_and_key("//skills/x")[0] is shell


def test_composite_searches_with_these_helpers() -> None:
    for name in ("_grep_backend", "_agrep_backend"):
        assert list(inspect.signature(getattr(CompositeBackend, name)).parameters) == [
            "self", "backend", "pattern", "path", "glob", "max_count",
        ]  # fmt: skip


def test_a_wrapped_protocol_has_no_operation_that_could_slip_through() -> None:
    """A new operation of the protocol must be decided on in `ReadOnlyBackend` and `WorkspaceBackend`."""
    operations = {name for name in vars(BackendProtocol) if not name.startswith("_")}
    known = {"ls", "read", "grep", "glob", "write", "edit", "delete", "upload_files", "download_files"}
    assert operations == known | {f"a{name}" for name in known}
    assert operations <= set(vars(ReadOnlyBackend))


def test_sandbox_protocol() -> None:
    assert BaseSandbox.__abstractmethods__ == {"execute", "id", "upload_files", "download_files"}
    assert issubclass(BaseSandbox, SandboxBackendProtocol)
    assert execute_accepts_timeout(LocalShellBackend)
    assert ExecuteResponse(output="", exit_code=0).truncated is False
    assert FileUploadResponse(path="/x", error="permission_denied").error == "permission_denied"
    assert supports_execution(CompositeBackend(LocalShellBackend(virtual_mode=True), {}))


def test_offloaded_results_go_below_artifacts_root(shell: LocalShellBackend) -> None:
    backend = WorkspaceBackend(shell)
    middleware = FilesystemMiddleware(backend=backend)
    assert middleware._large_tool_results_prefix == "/workspace/.output/large_tool_results"
    assert middleware._conversation_history_prefix == "/workspace/.output/conversation_history"


# the agent of deepagents


def request_for(backend: BackendProtocol, middleware: FilesystemMiddleware[Any, Any]) -> ModelRequest[Any]:
    return ModelRequest(
        model=scripted(Reply()),
        messages=[HumanMessage("hi")],
        tools=list(middleware.tools),
        system_message=SystemMessage("ours"),
    )


def test_the_route_prompt_is_added_in_the_method_we_override(shell: LocalShellBackend) -> None:
    backend = WorkspaceBackend(shell)
    middleware: FilesystemMiddleware[Any, Any] = FilesystemMiddleware(backend=backend)
    request = request_for(backend, middleware)
    filtered = middleware._filter_unsupported_tools_and_apply_prompt(request)
    assert filtered.system_message is not None
    assert "not accessible from the shell" in filtered.system_message.text
    assert request.system_message is not None
    assert request.system_message.text == "ours"


def test_tool_descriptions_can_be_replaced(shell: LocalShellBackend) -> None:
    names = ["ls", "read_file", "write_file", "edit_file", "delete", "glob", "grep", "execute"]
    middleware: FilesystemMiddleware[Any, Any] = FilesystemMiddleware(
        backend=shell, custom_tool_descriptions={name: f"ours: {name}" for name in names}
    )
    assert [tool.name for tool in middleware.tools] == names
    assert all(tool.description == f"ours: {tool.name}" for tool in middleware.tools)


def test_middleware_of_the_same_name_takes_the_defaults_place(shell: LocalShellBackend) -> None:
    class FilesystemMiddlewareOfOurs(FilesystemMiddleware[Any, Any]):
        @property
        def name(self) -> str:
            return "FilesystemMiddleware"

    ours = FilesystemMiddlewareOfOurs(backend=shell, custom_tool_descriptions={"ls": "ours"})
    agent = create_deep_agent(scripted(Reply()), backend=shell, middleware=[ours])
    assert agent.nodes["tools"].bound.tools_by_name["ls"].description == "ours"
    assert AgentMiddleware.name.fget(ours) == "FilesystemMiddlewareOfOurs"  # type: ignore[attr-defined]


def test_a_plan_is_not_in_the_default_stack(shell: LocalShellBackend) -> None:
    agent = create_deep_agent(scripted(Reply()), backend=shell)
    assert "write_todos" not in agent.nodes["tools"].bound.tools_by_name
    plan = TodoListMiddleware(system_prompt="s", tool_description="d")
    assert [(tool.name, tool.description) for tool in plan.tools] == [("write_todos", "d")]


def test_a_subagent_spec_of_that_name_replaces_the_general_purpose_one() -> None:
    assert GENERAL_PURPOSE_SUBAGENT["name"] == "general-purpose"
    spec = {"name": "general-purpose", "description": "ours only", "system_prompt": "x"}
    agent = create_deep_agent(scripted(Reply()), subagents=[spec])  # type: ignore[list-item]
    description = agent.nodes["tools"].bound.tools_by_name["task"].description
    assert "ours only" in description
    assert GENERAL_PURPOSE_SUBAGENT["description"] not in description


class FailingShell(LocalShellBackend):
    error: Exception = ValueError("bad time-out")

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        raise self.error


async def test_only_two_errors_of_execute_reach_the_model(tmp_path: Path) -> None:
    backend = FailingShell(root_dir=tmp_path, virtual_mode=True)
    agent = create_deep_agent(scripted(calling("execute", command="x"), Reply(text="ok")), backend=backend)
    result = await agent.ainvoke({"messages": [HumanMessage("go")]})
    assert "bad time-out" in result["messages"][-2].text
    backend.error = OSError("no socket")
    with pytest.raises(OSError, match="no socket"):
        await agent.ainvoke({"messages": [HumanMessage("go")]})


async def test_a_failed_command_is_a_success_with_its_exit_code_in_the_artifact(
    shell: LocalShellBackend,
) -> None:
    agent = create_deep_agent(scripted(calling("execute", command="exit 3"), Reply(text="ok")), backend=shell)
    result = await agent.ainvoke({"messages": [HumanMessage("go")]})
    message = result["messages"][-2]
    assert isinstance(message, ToolMessage)
    assert (message.status, message.artifact["exit_code"]) == ("success", 3)


# langchain


def test_tools_are_bound_at_the_call_so_a_deferred_model_can_be_built_then() -> None:
    built: list[str] = []

    def build() -> ScriptedChatModel:
        built.append("now")
        return scripted(Reply(text="hello"))

    agent = create_agent(DeferredChatModel(label="x", build=build), tools=[])
    assert not built
    assert agent.invoke({"messages": [HumanMessage("hi")]})["messages"][-1].text == "hello"
    assert built == ["now"]


async def test_a_deferred_model_streams_through_a_graph() -> None:
    model = DeferredChatModel(label="x", build=lambda: scripted(Reply(text="a long enough answer to be cut")))
    agent = create_deep_agent(model)
    stream = agent.astream({"messages": [HumanMessage("hi")]}, stream_mode="messages")
    pieces = [message.text async for message, _ in stream]
    assert len([piece for piece in pieces if piece]) > 1


async def test_prompt_caching_sees_the_real_model_behind_a_deferred_one() -> None:
    real = ChatAnthropic(model_name="claude-x", api_key=SecretStr("k"), timeout=None, stop=None)
    request = ModelRequest(model=DeferredChatModel(label="x", build=lambda: real), messages=[])
    assert not is_anthropic_chat_model(request.model)

    async def handler(request: ModelRequest[Any]) -> Any:
        return is_anthropic_chat_model(request.model)

    assert await RealModel().awrap_model_call(request, handler)
    assert RealModel().wrap_model_call(request, lambda given: given.model is real)  # type: ignore[arg-type, return-value]


def test_providers_that_cannot_be_used_raise_these() -> None:
    with pytest.raises(ValueError, match="nobody"):
        init_chat_model("x", model_provider="nobody")
    with pytest.raises(ImportError, match="langchain-ollama"):
        init_chat_model("x", model_provider="ollama")


def test_openai_client_takes_what_we_give_it() -> None:
    model = ChatOpenAI(model="m", api_key=SecretStr("k"), base_url="http://localhost:1/v1", stream_usage=True)
    assert (model.model_name, model.openai_api_base, model.stream_usage) == (
        "m",
        "http://localhost:1/v1",
        True,
    )
    assert "'k'" not in repr(model)


def test_the_approval_question_has_the_standard_shape() -> None:
    """Read by Studio and by the public chat pages; ours adds keys and leaves none out."""
    gate = HumanInTheLoopMiddleware({"ls": {"allowed_decisions": ["approve", "reject"]}})
    agent = create_deep_agent(
        scripted(calling("ls", path="/"), Reply(text="ok")), middleware=[gate], checkpointer=InMemorySaver()
    )
    config: Any = {"configurable": {"thread_id": "1"}}
    value = agent.invoke({"messages": [HumanMessage("go")]}, config)["__interrupt__"][0].value
    assert set(value) == {"action_requests", "review_configs"}
    assert {"name", "args", "description"} == set(value["action_requests"][0])
    assert value["review_configs"] == [{"action_name": "ls", "allowed_decisions": ["approve", "reject"]}]
    answer = {"decisions": [{"type": "reject", "message": "not now"}]}
    messages = agent.invoke(Command(resume=answer), config)["messages"]
    assert "not now" in messages[-2].text


# langgraph


def test_each_interrupt_of_a_node_takes_the_next_answer() -> None:
    from langgraph.graph import StateGraph
    from typing_extensions import TypedDict

    class State(TypedDict):
        answers: list[str]

    def ask_twice(state: State) -> State:
        return {"answers": [interrupt("first"), interrupt("second")]}

    builder = StateGraph(State)
    builder.add_node("ask", ask_twice)
    builder.set_entry_point("ask")
    graph = builder.compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    first = graph.invoke({"answers": []}, config)["__interrupt__"][0]
    assert re.fullmatch("[0-9a-f]{32}", first.id)
    assert graph.invoke(Command(resume="one"), config)["__interrupt__"][0].value == "second"
    assert graph.invoke(Command(resume="two"), config)["answers"] == ["one", "two"]


def test_messages_get_ids_when_they_reach_the_state() -> None:
    agent = create_deep_agent(scripted(Reply(text="ok")))
    messages = agent.invoke({"messages": [HumanMessage("hi")]})["messages"]
    assert all(message.id for message in messages)
    assert isinstance(messages[-1], AIMessage)
