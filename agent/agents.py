"""Which agent a run is for: the deep one, the code-block one or the one-tool one, and what each needs of a
model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.language_models import BaseChatModel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.state import CompiledStateGraph

from agent.code_steps import CodeSteps
from agent.config import Settings
from agent.deep_steps import DeepSteps
from agent.exec_steps import ExecSteps
from agent.models import CHOICES, calls_tools
from agent.steps import Steps
from libs.backends.workspace import WorkspaceBackend

if TYPE_CHECKING:
    from agent.exec_parts import ExecParts

__all__ = ["AgentName", "AgentRefused", "agent_of", "build_agent", "choose_agent", "named_in", "steps_of"]

AgentName = Literal["deep", "code", "exec"]

KEY = "agent"
"""Where the metadata of a thread's checkpoints names its agent. One without is the deep agent's."""

GRAPH_IDS: Mapping[AgentName, str] = {"deep": "deep_agent", "code": "code_agent", "exec": "exec_agent"}
"""What langgraph.json calls their graphs; LangGraph's server has it under `graph_id` in the same metadata."""


class AgentRefused(Exception):
    """The agent that was asked for cannot carry out this run; the message says why, and how to go on."""


async def agent_of(checkpointer: BaseCheckpointSaver[Any], thread_id: str) -> AgentName | None:
    """The agent that a thread belongs to; None where there is no such thread."""
    latest = await checkpointer.aget_tuple({"configurable": {"thread_id": thread_id}})
    return named_in(latest.metadata) if latest else None


def named_in(metadata: Mapping[str, Any]) -> AgentName:
    """The agent that the metadata of a thread's checkpoint names."""
    for name, graph_id in GRAPH_IDS.items():
        if metadata.get(KEY) == name or metadata.get("graph_id") == graph_id:
            return name
    return "deep"


def choose_agent(
    asked: AgentName | Literal["auto"],
    *,
    thread_id: str,
    thread_agent: AgentName | None,
    model: BaseChatModel,
    spec: str,
) -> AgentName:
    """The agent of a run: the thread's, else the one that was asked for, else what the model is able to do.

    Args:
        asked: what the person chose.
        thread_id: the thread of the run.
        thread_agent: whose thread that is already, None for a new one.
        model: what is to answer.
        spec: its name, for people.

    Raises:
        AgentRefused: the thread is another agent's, or the deep agent was chosen for a model that cannot
            call tools.
        ModelUnavailable: the model has to be looked at and cannot be built.
    """
    if thread_agent and asked not in ("auto", thread_agent):
        raise AgentRefused(
            f"Thread {thread_id!r} is one of the {thread_agent} agent: go on without --agent {asked}, or "
            "begin a thread of another name."
        )
    name: str = thread_agent or asked
    if name == "code":
        return "code"
    if name == "exec":
        return "exec"
    able = calls_tools(model)
    if not able and name == "deep":
        way = (
            f"Thread {thread_id!r} is one of the deep agent; with this model begin a new thread."
            if thread_agent
            else "Use --agent code, which needs no tools."
        )
        raise AgentRefused(
            f"The model {spec} cannot call tools, and the deep agent works with nothing else. {way} Or "
            f"choose another model. {CHOICES}"
        )
    return "deep" if able else "code"


def build_agent(
    name: AgentName,
    model: BaseChatModel,
    *,
    checkpointer: BaseCheckpointSaver[Any],
    settings: Settings,
    backend: WorkspaceBackend,
    parts: ExecParts | None = None,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Build an agent whose threads say that they are its own.

    Args:
        parts: what the one-tool agent works with, for a caller that closes it.
    """
    # Importing one reads the settings as the server would have them: a bad one is the caller's to report.
    if name == "code":
        from agent.code_graph import build_graph as build_code

        graph = build_code(model, checkpointer=checkpointer, settings=settings, backend=backend)
    elif name == "exec":
        from agent.exec_graph import build_graph as build_exec

        graph = build_exec(model, checkpointer=checkpointer, settings=settings, parts=parts)
    else:
        from agent.graph import build_graph as build_deep

        graph = build_deep(model, checkpointer=checkpointer, settings=settings, backend=backend)
    return graph.with_config(metadata={KEY: name, "graph_id": GRAPH_IDS[name]})


def steps_of(name: AgentName) -> Steps:
    """What reads a run of this agent."""
    if name == "code":
        return CodeSteps()
    return ExecSteps() if name == "exec" else DeepSteps()
