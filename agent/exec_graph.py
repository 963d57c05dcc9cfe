"""The one-tool agent: the model writes a whole program, which runs once in a fresh sandbox."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from langchain.agents import create_agent
from langchain.agents.middleware.types import AgentMiddleware, ToolCallRequest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import ToolMessage
from langgraph.types import Checkpointer, Command

from agent.config import build_gates, build_model, given_or_loaded
from agent.exec_agent import CallsInText, OneExecution
from agent.models import RealModel
from agent.parts import (
    AgentsFile,
    ShowsAgentsFile,
    graph_of,
    prepared,
    served,
    shows_servers,
    stream_transformers,
)
from agent.parts.deep_file_tools import call_of, with_artifact
from agent.prompts import exec_prompt, load_catalogue
from agent.secrets import clean_input, provider_errors, secret_filter, suspected
from agent.settings import Settings
from libs.backends.docker import live_output
from libs.exec_tool import NAME, Call, ExecResult, execute_code_tool
from libs.middleware.approvals import AddressedGraph, answer_by_id
from libs.middleware.captures import CaptureMiddleware
from libs.middleware.lost_replies import AsksAgain
from libs.middleware.stopped_calls import PatchToolCallsMiddleware

if TYPE_CHECKING:
    from agent.parts.exec_parts import ExecParts

__all__ = ["build_graph", "graph", "stream_transformers"]


def build_graph(
    model: BaseChatModel | str | None = None,
    *,
    checkpointer: Checkpointer = None,
    settings: Settings | None = None,
    parts: ExecParts | None = None,
) -> AddressedGraph:
    """Build the one-tool agent. Needs neither Docker nor a key before the first use.

    Args:
        model: a chat model, or a name in the form of MODEL. Default: the settings' model. A model without
            tools writes its program as a code block.
        checkpointer: keeps threads and pending approvals. LangGraph's server brings its own.
        settings: the settings. Default: environment and `.env`.
        parts: the parts of the agent, if the caller closes them. Default: new parts.

    Raises:
        SettingsError: a setting, or the name of the model, is wrong.
        TypeError: `model` or `settings` has another type.
        ScriptError: the file in `scripted:<file>` is not a script.
    """
    # Imported here, because containers and databases are slow to import.
    from agent.exec_agent import MemoryMiddleware
    from agent.listing import SaysAbsentPaths, ShowsData
    from agent.parts.exec_effects import program_effects
    from agent.parts.exec_parts import build_exec_parts

    settings = prepared(given_or_loaded(settings))
    if not isinstance(model, BaseChatModel):
        model = build_model(settings, model)
    known = secret_filter(settings)
    parts = parts or build_exec_parts(settings, model)
    tool = execute_code_tool(
        parts.runner,
        description=exec_prompt.TOOL,
        shown_chars=settings.sandbox_output_chars // 2,
        live=live_output,
        done=_look_for_secrets,
    )
    catalogue = load_catalogue()
    prompt = exec_prompt.system_prompt(settings, catalogue, passed=parts.passed)
    in_text = exec_prompt.system_prompt(settings, catalogue, tools=False, passed=parts.passed)
    middleware: list[AgentMiddleware[Any, Any, Any]] = [
        # No tool of the agent only reads.
        *([CaptureMiddleware(parts.captures, reads=())] if parts.captures else []),
        *([ShowsData(parts.data)] if parts.data else []),
        *([SaysAbsentPaths(parts.data.absent)] if parts.data else []),
        ShowsAgentsFile(AgentsFile(settings)),
        *shows_servers(settings),
        MemoryMiddleware(parts.memory),
        PatchToolCallsMiddleware(),
        OneExecution(settings.exec_repairs, parts.runner.prepare),
        RealModel(provider_errors(known)),
        _Calls(),
        *build_gates(settings, program_effects(settings, parts)),
        CallsInText(prompt, in_text),
        AsksAgain(),
    ]
    agent: Any = create_agent(
        model,
        [tool],
        system_prompt=prompt,
        middleware=middleware,
        checkpointer=checkpointer,
        name="exec_agent",
    )
    return answer_by_id(agent, edits={NAME: Call}, clean=clean_input(known), files=parts.captures)


def _look_for_secrets(result: ExecResult, call_id: str | None) -> None:
    suspected(f"{result.stdout}\n{result.stderr}", call_id)


class _Calls(AgentMiddleware[Any, Any, Any]):
    """Passes the id of each call to the tool, so that a resumed run carries out no call twice."""

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        with call_of(request, keyed=(NAME,)) as call:
            return with_artifact(handler(request), call)

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        with call_of(request, keyed=(NAME,)) as call:
            return with_artifact(await handler(request), call)


def _served_graph(model: BaseChatModel, *, settings: Settings, backend: object) -> AddressedGraph:  # noqa: ARG001
    """Build the server's graph with the parts that all graphs and routes share."""
    return build_graph(model, settings=settings, parts=served().exec_parts)


graph: AddressedGraph
__getattr__ = graph_of(globals(), _served_graph)
