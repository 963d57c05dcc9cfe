"""Behaviour and private names of deepagents, LangChain and LangGraph that this project depends on.

Only `libs/private_names.py` and `agent/server/langgraph_server.py` import private names. When an upgrade
breaks an assumption, the test that fails here names the assumption before a run fails.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import version
from importlib.util import find_spec
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
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain.agents.middleware.types import ModelRequest
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from packaging.requirements import Requirement
from pydantic import SecretStr

from agent.parts.chat_model import RealModel
from agent.settings import ROOT
from libs.backends.asynchronous_backend import AsyncBackend
from libs.backends.read_only_backend import ReadOnlyBackend
from libs.backends.workspace_backend import WorkspaceBackend
from libs.models.deferred_model import DeferredChatModel
from libs.models.scripted_model import Conversation, Reply, ScriptedChatModel, ToolUse
from libs.private_names import CONFIG_KEY_CHECKPOINTER, NULL_TASK_ID, is_read_as_text

TESTED_VERSIONS = {
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


def test_versions_are_tested_and_bounded() -> None:
    for package, tested in TESTED_VERSIONS.items():
        assert f"{version(package)}.".startswith(f"{tested}."), package
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for requirement in map(Requirement, project["dependencies"]):
        assert requirement.specifier.contains(version(requirement.name)), requirement
        assert any(part.operator == "<" for part in requirement.specifier), requirement


PRIVATE_NAMES = {"libs/private_names.py", "agent/server/langgraph_server.py"}


def test_private_names_of_packages_are_in_two_files() -> None:
    """Private are names with an underscore, and all names of LangGraph's server, which documents none."""
    undocumented = re.compile(r"langgraph_(api|runtime)\b|.*\._|.*\b_internal\b")
    own = {"agent", "libs", "skills", "__future__", *sys.stdlib_module_names}
    found = set()
    for path in (each for folder in ("agent", "libs") for each in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            if module and module.split(".")[0] not in own:
                names = [module, *(f"{module}.{alias.name}" for alias in node.names)]
                if any(undocumented.match(name) for name in names):
                    found.add(path.relative_to(ROOT).as_posix())
    assert found == PRIVATE_NAMES


def test_names_stored_in_checkpoints_and_files_read_as_bytes() -> None:
    assert NULL_TASK_ID == "00000000-0000-0000-0000-000000000000"
    assert CONFIG_KEY_CHECKPOINTER == "__pregel_checkpointer"
    assert not any(map(is_read_as_text, ("/a.png", "/a.PDF", "/a.mkv", "/a.pptx")))
    assert all(map(is_read_as_text, ("/a.csv", "/a.svg", "/a", "/a.png.txt")))


def test_wrappers_cover_every_operation_of_the_protocol() -> None:
    """`ReadOnlyBackend` and `WorkspaceBackend` must handle every operation; a new one would bypass them."""
    operations = {name for name in vars(BackendProtocol) if not name.startswith("_")}
    known = {"ls", "read", "grep", "glob", "write", "edit", "delete", "upload_files", "download_files"}
    assert operations == known | {f"a{name}" for name in known}
    assert {f"a{name}" for name in known} <= set(vars(ReadOnlyBackend))
    assert known <= set(vars(AsyncBackend))


def test_sandbox_protocol(tmp_path: Path) -> None:
    assert BaseSandbox.__abstractmethods__ == {"execute", "id", "upload_files", "download_files"}
    assert issubclass(BaseSandbox, SandboxBackendProtocol)
    assert execute_accepts_timeout(LocalShellBackend)
    assert ExecuteResponse(output="", exit_code=0).truncated is False
    assert FileUploadResponse(path="/x", error="permission_denied").error == "permission_denied"
    assert supports_execution(CompositeBackend(LocalShellBackend(virtual_mode=True), {}))

    backend = WorkspaceBackend(LocalShellBackend(root_dir=tmp_path, virtual_mode=True))
    middleware = FilesystemMiddleware(backend=backend)
    assert middleware._large_tool_results_prefix == "/workspace/.output/large_tool_results"
    assert middleware._conversation_history_prefix == "/workspace/.output/conversation_history"


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


async def test_prompt_caching_sees_the_real_model_behind_a_deferred_one() -> None:
    real = ChatAnthropic(model_name="claude-x", api_key=SecretStr("k"), timeout=None, stop=None)
    request = ModelRequest(model=DeferredChatModel(label="x", build=lambda: real), messages=[])
    assert not is_anthropic_chat_model(request.model)

    async def handler(request: ModelRequest[Any]) -> Any:
        return is_anthropic_chat_model(request.model)

    assert await RealModel().awrap_model_call(request, handler)
    assert RealModel().wrap_model_call(request, lambda given: given.model is real)  # type: ignore[arg-type, return-value]


def test_the_approval_question_has_the_standard_shape() -> None:
    """Studio and public chat pages read this shape. Our question has the same keys and more."""
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


def source(module: str, file: str) -> str:
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return (Path(spec.origin).parent / file).read_text()


@pytest.mark.parametrize(
    ("module", "file", "lines"),
    [
        (
            "langgraph_api",
            "auth/middleware.py",
            ['root_path == "/noauth" or root_path.startswith("/noauth/")'],
        ),
        ("langgraph_sdk", "_async/client.py", ['get_asgi_transport()(app, root_path="/noauth")']),
        (
            "langgraph_api",
            "state.py",
            ['patched: InterruptSchema = {"id": interrupt.id, "value": interrupt.value}'],
        ),
        (
            "langgraph_runtime_inmem",
            "database.py",
            [
                "GLOBAL_STORE = GlobalStore(",
                "GLOBAL_RETRY_COUNTER = InMemoryRetryCounter()",
                "self._counters: dict[uuid.UUID, int] = ",
            ],
        ),
    ],
)
def test_source_of_the_server_that_is_relied_on(module: str, file: str, lines: list[str]) -> None:
    text = source(module, file)
    assert [line for line in lines if line not in text] == []


def test_internal_routes_of_the_development_server() -> None:
    routes = source("langgraph_runtime_inmem", "routes.py")
    stream, thread = "/deploy/{operation_id}/stream", "/internal/debug/thread/{thread_id}"
    for path in ("/deploy", stream, thread, "/internal/truncate"):
        assert f'"{path}"' in routes
    assert routes.count('ApiRoute(\n            "') + routes.count('ApiRoute("') == 5, "no other"
