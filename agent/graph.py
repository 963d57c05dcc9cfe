"""The deep agent: files, a shell and skills in one sandbox, a plan, and subagents that share all of it."""

from __future__ import annotations

from typing import Any

from deepagents import SubAgent, create_deep_agent
from langchain.agents.middleware import AgentMiddleware, TodoListMiddleware
from langchain_core.language_models import BaseChatModel
from langgraph.types import Checkpointer

from agent import prompt
from agent.config import INTERRUPT_ON, Settings, build_backend, build_model, load_settings
from agent.file_tools import FilesystemMiddleware
from agent.known_secrets import secret_filter
from agent.models import RealModel
from agent.page_stream import stream_transformers
from agent.served import graph_of
from agent.sinks import clean_input, provider_errors
from libs.backends.workspace import WorkspaceBackend
from libs.middleware.answers import AddressedGraph, answer_by_id
from libs.middleware.approval_middleware import ApprovalMiddleware, GrantsKept
from libs.middleware.budget import Budget
from libs.middleware.budget_middleware import BudgetMiddleware
from libs.middleware.skills import SkillsMiddleware
from libs.middleware.subagents import bound_subagents

__all__ = ["build_graph", "graph", "stream_transformers"]


def build_graph(
    model: BaseChatModel | str | None = None,
    *,
    checkpointer: Checkpointer = None,
    settings: Settings | None = None,
    backend: WorkspaceBackend | None = None,
) -> AddressedGraph:
    """Build the deep agent. Needs neither Docker nor a key: both are asked for at their first use.

    Args:
        model: a chat model, or what MODEL may hold; without it, what the settings say.
        checkpointer: keeps threads and pending approvals. LangGraph's server brings its own.
        settings: without it, those of the environment and `.env`.
        backend: the computer to work on, for a caller that starts and stops it; without it, a new one.

    Raises:
        SettingsError: a setting has a value it cannot have.
        ScriptError: `scripted:<file>` names a file that is no script.
    """
    settings = settings or load_settings()
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
    tools = [*_tools(settings, backend), RealModel(provider_errors(known))]
    gates = _gates(settings)
    agent = create_deep_agent(
        model,
        system_prompt=prompt.system_prompt(settings),
        middleware=[*_growth(settings, backend), *tools, plan, *gates],
        subagents=bound_subagents([*tools, *gates], [subagent]),
        backend=backend,
        checkpointer=checkpointer,
        name="deep_agent",
    )
    return answer_by_id(agent, clean=clean_input(known))


def _growth(settings: Settings, backend: WorkspaceBackend) -> list[AgentMiddleware[Any, Any, Any]]:
    if not settings.skills_evolve:
        return []
    # Most installations never need them.
    from agent.skill_growth import build_growth
    from agent.skill_growth_middleware import SkillGrowth

    growth = build_growth(settings, backend)
    return [SkillGrowth(growth)] if growth else []


def _tools(settings: Settings, backend: WorkspaceBackend) -> list[AgentMiddleware[Any, Any, Any]]:
    return [
        FilesystemMiddleware(
            backend=backend,
            custom_tool_descriptions=prompt.TOOLS,
            # Above what a command's result may hold: the sandbox has cut it already, and kept the whole.
            tool_token_limit_before_evict=max(20_000, settings.sandbox_output_chars // 2),
        ),
        SkillsMiddleware(
            settings.skill_folders,
            prompt_chars=settings.skills_prompt_chars,
            trusted=settings.skills_trusted,
        ),
    ]


def _gates(settings: Settings) -> list[AgentMiddleware[Any, Any, Any]]:
    budget = Budget(
        calls=settings.run_max_calls, seconds=settings.run_max_seconds, tokens=settings.run_max_tokens
    )
    # The budget comes behind the approvals: nobody is asked about a call that can no longer run.
    approvals = ApprovalMiddleware(INTERRUPT_ON) if settings.approvals == "ask" else GrantsKept()
    return [approvals, BudgetMiddleware(budget)]


graph: AddressedGraph
__getattr__ = graph_of(globals(), build_graph)
