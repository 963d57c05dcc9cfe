"""The one-tool agent: a model writes a whole program, which runs once in a fresh sandbox."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from langchain.agents import create_agent
from langchain.agents.middleware.types import AgentMiddleware, ToolCallRequest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import ToolMessage
from langgraph.types import Checkpointer, Command

from agent import exec_prompt
from agent.config import INTERRUPT_ON, Settings, build_model, load_settings
from agent.exec_catalogue import load_catalogue
from agent.exec_once import OneExecution
from agent.exec_text import CallsInText
from agent.file_tools import call_key
from agent.known_secrets import secret_filter
from agent.models import RealModel
from agent.page_stream import stream_transformers
from agent.served import graph_of, served
from agent.sinks import clean_input, provider_errors
from agent.suspected import suspected
from libs.backends.docker.live import live_output
from libs.exec_tool.call import Call
from libs.exec_tool.outcome import ExecResult
from libs.exec_tool.tool import CALL, NAME, execute_code_tool
from libs.middleware.answers import AddressedGraph, answer_by_id
from libs.middleware.approval_middleware import ApprovalMiddleware, GrantsKept
from libs.middleware.budget import Budget
from libs.middleware.budget_middleware import BudgetMiddleware

if TYPE_CHECKING:
    from agent.exec_parts import ExecParts

__all__ = ["build_graph", "graph", "stream_transformers"]


def build_graph(
    model: BaseChatModel | str | None = None,
    *,
    checkpointer: Checkpointer = None,
    settings: Settings | None = None,
    parts: ExecParts | None = None,
) -> AddressedGraph:
    """Build the one-tool agent. Needs neither Docker nor a key: both are asked for at their first use.

    Args:
        model: a chat model, or what MODEL may hold; without it, what the settings say. One that cannot call
            tools writes its program as a block of text.
        checkpointer: keeps threads and pending approvals. LangGraph's server brings its own.
        settings: without it, those of the environment and `.env`.
        parts: what it works with, for a caller that closes it; without it, new ones.

    Raises:
        SettingsError: a setting has a value it cannot have.
        ScriptError: `scripted:<file>` names a file that is no script.
    """
    # What runs containers and keeps things: whoever imports this module need not want a graph.
    from agent.exec_listing import ShowsData
    from agent.exec_parts import build_parts
    from agent.memory_middleware import MemoryMiddleware

    settings = settings or load_settings()
    if not isinstance(model, BaseChatModel):
        model = build_model(settings, model)
    known = secret_filter(settings)
    parts = parts or build_parts(settings)
    tool = execute_code_tool(
        parts.runner,
        description=exec_prompt.TOOL,
        shown_chars=settings.sandbox_output_chars // 2,
        live=live_output,
        done=_look_for_secrets,
    )
    budget = Budget(
        calls=settings.run_max_calls, seconds=settings.run_max_seconds, tokens=settings.run_max_tokens
    )
    catalogue = load_catalogue()
    prompt = exec_prompt.system_prompt(settings, catalogue)
    in_text = exec_prompt.system_prompt(settings, catalogue, tools=False)
    middleware: list[AgentMiddleware[Any, Any, Any]] = [
        *([ShowsData(parts.data)] if parts.data else []),
        MemoryMiddleware(parts.memory),
        OneExecution(settings.exec_repairs, parts.runner.prepare),
        RealModel(provider_errors(known)),
        _Calls(),
        ApprovalMiddleware(INTERRUPT_ON, tools=[tool]) if settings.approvals == "ask" else GrantsKept(),
        BudgetMiddleware(budget),
        CallsInText(prompt, in_text),
    ]
    agent: Any = create_agent(
        model,
        [tool],
        system_prompt=prompt,
        middleware=middleware,
        checkpointer=checkpointer,
        name="exec_agent",
    )
    return answer_by_id(agent, edits={NAME: Call}, clean=clean_input(known))


def _look_for_secrets(result: ExecResult, call_id: str | None) -> None:
    suspected(f"{result.stdout}\n{result.stderr}", call_id)


class _Calls(AgentMiddleware[Any, Any, Any]):
    """Tells the tool which call it carries out: one of a run that is executed again is not carried out
    twice."""

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        with _told(request):
            return handler(request)

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        with _told(request):
            return await handler(request)


@contextmanager
def _told(request: ToolCallRequest) -> Iterator[None]:
    token = CALL.set((request.tool_call["id"], call_key(request)))
    try:
        yield
    finally:
        CALL.reset(token)


def _served_graph(model: BaseChatModel, *, settings: Settings, backend: object) -> AddressedGraph:  # noqa: ARG001
    """The server's: with parts that all its graphs and routes share, and no use for the shared computer."""
    return build_graph(model, settings=settings, parts=served().exec_parts)


graph: AddressedGraph
__getattr__ = graph_of(globals(), _served_graph)
