"""Behaviour and private names of deepagents, LangChain and LangGraph that this project depends on.

Only `libs/private_names.py` and `agent/server/langgraph_server.py` import private names or list them. When an
upgrade breaks an assumption, the test that fails here names the assumption before a run fails.
"""

from __future__ import annotations

import ast
import tomllib
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NamedTuple, get_type_hints

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
from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage
from langgraph._internal import _constants
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphInterrupt
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Interrupt, interrupt
from packaging.requirements import Requirement
from pydantic import SecretStr

from agent.models import RealModel
from agent.server.langgraph_server import OWN_ENTRIES
from agent.settings import ROOT
from libs.backends.asynchronous_backend import AsyncBackend
from libs.backends.read_only_backend import ReadOnlyBackend
from libs.backends.workspace_backend import WorkspaceBackend
from libs.middleware.approvals import ApprovalMiddleware
from libs.models.deferred_model import DeferredChatModel
from libs.models.scripted_model import Conversation, Reply, ScriptedChatModel, ToolUse
from libs.private_names import (
    CONFIG_KEY_CHECKPOINT_MAP,
    CONFIG_KEY_CHECKPOINTER,
    EDITED_TOOL_CALLS,
    INTERRUPT,
    NULL_TASK_ID,
    RESUME,
    USED_IN_PLACE,
    is_read_as_text,
)
from tests.support.private_uses import attributes, attributes_by_name, defined, defines, imported, inherited

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

DOCUMENTED = {
    BaseChatModel: {"_agenerate", "_astream", "_generate", "_llm_type", "_resolve_model_profile", "_stream"},
    NamedTuple("Row", [("field", int)]): {"_make", "_replace"},
}
"""Class -> names with an underscore that its documentation tells users to override or to call."""

GUEST = "libs/sandbox/guest/"
"""Left out: it runs in the image's Python, with modules of CPython that load faster than the public ones."""

OWN = {"agent", "libs", "servers", "skills"}
"""Packages of this project. `servers` is written into the sandbox: it has no folder here."""


@pytest.fixture(scope="module")
def programs() -> dict[str, ast.Module]:
    """Return path -> syntax tree."""
    paths = {path.relative_to(ROOT).as_posix(): path for name in OWN for path in (ROOT / name).rglob("*.py")}
    return {name: ast.parse(path.read_text()) for name, path in paths.items() if not name.startswith(GUEST)}


def test_private_names_of_packages_are_in_two_files(programs: dict[str, ast.Module]) -> None:
    assert {path for path, tree in programs.items() if any(imported(tree, OWN))} == PRIVATE_NAMES


def test_private_names_that_cannot_be_imported_are_listed_and_exist(programs: dict[str, ast.Module]) -> None:
    """An attribute is taken for our own if any class or module of this repository defines its name."""
    known = {name for tree in programs.values() for name in defined(tree)}
    found = set()
    for path, tree in programs.items():
        if path not in PRIVATE_NAMES:
            found |= set(attributes(tree)) - known
            found |= set(attributes_by_name(tree))
        if not path.startswith("skills/"):
            found |= set(inherited(path, tree, OWN))
    listed = {name.rpartition(".")[2] for name in USED_IN_PLACE}
    assert found == listed.union(*DOCUMENTED.values())

    for name in USED_IN_PLACE:
        owner, _, attribute = name.rpartition(".")
        assert defines(resolve_name(owner), attribute), name
    for each, names in DOCUMENTED.items():
        assert [name for name in names if not defines(each, name)] == []


def test_names_stored_in_checkpoints_and_files_read_as_bytes() -> None:
    assert NULL_TASK_ID == "00000000-0000-0000-0000-000000000000"
    assert f"{OWN_ENTRIES}checkpointer" == CONFIG_KEY_CHECKPOINTER
    keys = {key for name, key in vars(_constants).items() if name.startswith("CONFIG_KEY_")}
    public = {"checkpoint_id", "checkpoint_map", "checkpoint_ns", "thread_id"}
    assert {key for key in keys if not key.startswith(OWN_ENTRIES)} == public
    assert (CONFIG_KEY_CHECKPOINT_MAP, RESUME, INTERRUPT) == ("checkpoint_map", "__resume__", "__interrupt__")
    assert EDITED_TOOL_CALLS in get_type_hints(ApprovalMiddleware.state_schema)
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
    from langchain_anthropic import ChatAnthropic  # takes 2 s

    real = ChatAnthropic(model_name="claude-x", api_key=SecretStr("k"), timeout=None, stop=None)
    request = ModelRequest(model=DeferredChatModel(label="x", build=lambda: real), messages=[])
    assert not is_anthropic_chat_model(request.model)

    seen: list[object] = []

    def reply(given: ModelRequest[Any]) -> ModelResponse[Any]:
        seen.append(given.model)
        return ModelResponse([])

    async def handler(given: ModelRequest[Any]) -> ModelResponse[Any]:
        return reply(given)

    await RealModel().awrap_model_call(request, handler)
    RealModel().wrap_model_call(request, reply)
    assert seen == [real, real]
    assert is_anthropic_chat_model(real)


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


def test_a_node_can_raise_several_interrupts_and_is_resumed_by_one_id() -> None:
    """The gate asks about each call with an interrupt of its own (`INTERRUPT_MODE=per_call`)."""

    def asks(state: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"said": interrupt("?")}
        except GraphInterrupt as raised:
            [own] = raised.args[0]
            raise GraphInterrupt([Interrupt({"of": own.id}, digit * 32) for digit in "ab"]) from None

    builder = StateGraph(dict[str, Any])
    builder.add_node("asks", asks)
    builder.add_edge(START, "asks")
    graph: Any = builder.compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    raised = graph.invoke({"said": ""}, config)["__interrupt__"]
    assert [each.id for each in raised] == ["a" * 32, "b" * 32]
    assert list(graph.get_state(config).interrupts) == raised
    assert graph.invoke(Command(resume={raised[0].value["of"]: "yes"}), config) == {"said": "yes"}


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
                "async def connect(",
            ],
        ),
        (
            "langgraph_runtime_inmem",
            "ops.py",
            [
                "class Threads(",
                "    class State(",
                "        async def get(\n            conn: InMemConnectionProto,\n",
            ],
        ),
        ("langgraph_api", "validation.py", ["openapi = orjson.loads("]),
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
