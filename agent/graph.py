"""The deep agent: a plan, files, a shell and skills in one sandbox, and subagents in the same sandbox."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deepagents import SubAgent, create_deep_agent
from langchain.agents.middleware import AgentMiddleware, TodoListMiddleware
from langchain_core.language_models import BaseChatModel
from langgraph.types import Checkpointer

from agent import prompt
from agent.config import build_backend, build_gates, build_model, given_or_loaded
from agent.listing import NamedPath, SaysAbsentPaths, absent
from agent.models import RealModel
from agent.parts import (
    AgentsFile,
    ShowsAgentsFile,
    captures_of,
    command_effects,
    graph_of,
    prepared,
    shows_servers,
    stream_transformers,
)
from agent.parts.deep_file_tools import FilesystemMiddleware
from agent.parts.deep_summaries import SummarizationMiddleware
from agent.secrets import clean_input, provider_errors, secret_filter
from agent.settings import Settings
from libs.backends import WorkspaceBackend
from libs.middleware.approvals import AddressedGraph, answer_by_id
from libs.middleware.budget import BudgetMiddleware
from libs.middleware.captures import CaptureMiddleware, Captures
from libs.middleware.lost_replies import AsksAgain
from libs.middleware.skills import SkillsMiddleware
from libs.middleware.stopped_calls import PatchToolCallsMiddleware
from libs.middleware.subagents import bound_subagents

__all__ = ["build_graph", "graph", "stream_transformers"]

_READS = ("ls", "read_file", "glob", "grep", "write_todos")
"""Tools that change no file."""


def build_graph(
    model: BaseChatModel | str | None = None,
    *,
    checkpointer: Checkpointer = None,
    settings: Settings | None = None,
    backend: WorkspaceBackend | None = None,
) -> AddressedGraph:
    """Build the deep agent. Needs neither Docker nor a key before the first use.

    Args:
        model: a chat model, or a name in the form of MODEL. Default: the settings' model.
        checkpointer: keeps threads and pending approvals. LangGraph's server brings its own.
        settings: the settings. Default: environment and `.env`.
        backend: the computer, if the caller starts and stops it. Default: a new computer.

    Raises:
        SettingsError: a setting, or the name of the model, is wrong.
        TypeError: `model` or `settings` has another type.
        ScriptError: the file in `scripted:<file>` is not a script.
    """
    settings = prepared(given_or_loaded(settings))
    if not isinstance(model, BaseChatModel):
        model = build_model(settings, model)
    known = secret_filter(settings)
    backend = backend or build_backend(settings)
    subagent: SubAgent = {
        "name": "general-purpose",
        "description": prompt.SUBAGENT_DESCRIPTION,
        "system_prompt": prompt.subagent_prompt(settings),
    }
    plan: AgentMiddleware[Any, Any, Any] = TodoListMiddleware(
        system_prompt=prompt.TODO_PROMPT, tool_description=prompt.TODO_TOOL
    )
    stopped = PatchToolCallsMiddleware()
    errors = provider_errors(known)
    gates = build_gates(settings, command_effects(settings, backend))
    budget = next(each for each in gates if isinstance(each, BudgetMiddleware))
    summaries = SummarizationMiddleware(model, backend, budget, errors)
    tools = [*_tools(settings, backend), summaries, RealModel(errors)]
    captures = captures_of(settings, backend)
    agent = create_deep_agent(
        model,
        system_prompt=prompt.system_prompt(settings),
        middleware=[
            *_captures(captures),
            *_growth(settings, backend),
            stopped,
            *tools,
            plan,
            _absent_paths(backend),
            *gates,
            AsksAgain(),
        ],
        subagents=bound_subagents([*tools, *gates, AsksAgain()], [subagent]),
        backend=backend,
        checkpointer=checkpointer,
        name="deep_agent",
    )
    return answer_by_id(agent, clean=clean_input(known), files=captures)


def _captures(captures: Captures | None) -> list[AgentMiddleware[Any, Any, Any]]:
    return [CaptureMiddleware(captures, reads=_READS)] if captures else []


def _growth(settings: Settings, backend: WorkspaceBackend) -> list[AgentMiddleware[Any, Any, Any]]:
    if not settings.skills_evolve:
        return []
    from agent.skills import SkillGrowth, build_growth

    growth = build_growth(settings, backend)
    return [SkillGrowth(growth)] if growth else []


def _tools(settings: Settings, backend: WorkspaceBackend) -> list[AgentMiddleware[Any, Any, Any]]:
    return [
        FilesystemMiddleware(
            backend=backend,
            custom_tool_descriptions=prompt.tool_descriptions(settings),
            # Above the largest result of a command, which the sandbox has already truncated.
            tool_token_limit_before_evict=max(20_000, settings.sandbox_output_chars // 2),
        ),
        SkillsMiddleware(
            settings.skill_folders,
            prompt_chars=settings.skills_prompt_chars,
            trusted=settings.skills_trusted,
        ),
        ShowsAgentsFile(AgentsFile(settings)),
        *shows_servers(settings),
    ]


def _absent_paths(backend: WorkspaceBackend) -> SaysAbsentPaths:
    async def absent_in_computer(named: Sequence[NamedPath]) -> list[str]:
        from libs.backends.docker import DockerExecutionBackend  # slow to import

        computer = backend.default
        return await absent(computer.sandbox, named) if isinstance(computer, DockerExecutionBackend) else []

    return SaysAbsentPaths(absent_in_computer)


graph: AddressedGraph
__getattr__ = graph_of(globals(), build_graph)
