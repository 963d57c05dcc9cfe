"""Chooses and builds the agent of a run: deep agent, code-block agent or one-tool agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.language_models import BaseChatModel
from langgraph.checkpoint.base import BaseCheckpointSaver

from agent.models import CHOICES, calls_tools, name_of
from agent.run.code_steps import CodeSteps
from agent.run.deep_steps import DeepSteps
from agent.run.run_steps import Steps
from agent.settings import Settings
from libs.backends import WorkspaceBackend
from libs.middleware.approvals import AddressedGraph

if TYPE_CHECKING:
    from agent.parts.exec_parts import ExecParts

__all__ = [
    "AgentName",
    "AgentRefused",
    "agent_of",
    "build_agent",
    "choose_agent",
    "model_in",
    "named_in",
    "steps_of",
]

AgentName = Literal["deep", "code", "exec"]

KEY = "agent"
"""Key of the agent's name in the metadata of checkpoints. A thread without the key is the deep agent's."""
_MODEL = "model"
"""Key of the model's name in the metadata of checkpoints. LangGraph's server does not save the key."""

GRAPH_IDS: Mapping[AgentName, str] = {"deep": "deep_agent", "code": "code_agent", "exec": "exec_agent"}
"""Names of the graphs in langgraph.json. LangGraph's server saves the name as `graph_id` in the metadata."""


class AgentRefused(Exception):
    """The chosen agent cannot carry out this run; the message says why, and what to do.

    Attributes:
        thread_agent: the agent of the thread; None for a new thread.
    """

    def __init__(self, message: str, thread_agent: AgentName | None = None) -> None:
        super().__init__(message)
        self.thread_agent = thread_agent


async def agent_of(checkpointer: BaseCheckpointSaver[Any], thread_id: str) -> AgentName | None:
    """Return the agent of a thread; None where the thread does not exist."""
    latest = await checkpointer.aget_tuple({"configurable": {"thread_id": thread_id}})
    return named_in(latest.metadata) if latest else None


def named_in(metadata: Mapping[str, Any]) -> AgentName:
    """Return the agent that the metadata of a checkpoint names."""
    for name, graph_id in GRAPH_IDS.items():
        if metadata.get(KEY) == name or metadata.get("graph_id") == graph_id:
            return name
    return "deep"


def model_in(metadata: Mapping[str, Any]) -> str | None:
    """Return the name of the model that the metadata of a checkpoint names, in the form of MODEL."""
    return metadata.get(_MODEL)


def choose_agent(
    asked: AgentName | Literal["auto"],
    *,
    thread_id: str,
    thread: Mapping[str, Any] | None,
    model: BaseChatModel,
) -> AgentName:
    """Return the agent of a run: the thread's agent, else `asked`, else an agent that the model can drive.

    Args:
        asked: the person's choice.
        thread_id: the thread of the run.
        thread: the metadata of the thread's latest checkpoint, None for a new thread.
        model: the model of the run.

    Raises:
        AgentRefused: the thread belongs to another agent, or the deep agent was chosen for a model that
            cannot call tools.
        ModelUnavailable: the model cannot be built.
    """
    thread_agent = named_in(thread) if thread is not None else None
    if thread_agent and asked not in ("auto", thread_agent):
        raise AgentRefused(
            f"Thread {thread_id!r} is one of the {thread_agent} agent: go on with that agent, or begin a new "
            "thread.",
            thread_agent,
        )
    name = thread_agent or asked
    if name == "code" or name == "exec":  # noqa: PLR1714 - narrows the type
        return name
    if calls_tools(model):
        return "deep"
    if name == "auto":
        return "code"
    refused = f"The model {name_of(model)} cannot call tools, and the deep agent works with nothing else"
    if thread is None:
        raise AgentRefused(f"{refused}: choose the code agent (--agent code), or another model. {CHOICES}")
    # A thread that LangGraph's server or an earlier version began names no model.
    before = model_in(thread)
    with_model = f"with {before}, its last model" if before else "with another model"
    raise AgentRefused(
        f"{refused}. Continue thread {thread_id!r} {with_model} (at the command line: --model "
        f"{before or 'provider:model'}), or begin a new thread.",
        thread_agent,
    )


def build_agent(
    name: AgentName,
    model: BaseChatModel,
    *,
    checkpointer: BaseCheckpointSaver[Any],
    settings: Settings,
    backend: WorkspaceBackend,
    parts: ExecParts | None = None,
) -> AddressedGraph:
    """Build an agent that saves its name in the metadata of its threads.

    Args:
        parts: parts of the one-tool agent; the caller closes them.
    """
    # Imported here: each graph takes long to import.
    if name == "code":
        from agent.code_graph import build_graph as build_code

        graph = build_code(model, checkpointer=checkpointer, settings=settings, backend=backend)
    elif name == "exec":
        from agent.exec_graph import build_graph as build_exec

        graph = build_exec(model, checkpointer=checkpointer, settings=settings, parts=parts)
    else:
        from agent.graph import build_graph as build_deep

        graph = build_deep(model, checkpointer=checkpointer, settings=settings, backend=backend)
    return graph.with_config(metadata={KEY: name, "graph_id": GRAPH_IDS[name], _MODEL: name_of(model)})


def steps_of(name: AgentName) -> Steps:
    """Return the reader for runs of this agent."""
    if name == "code":
        return CodeSteps()
    if name == "deep":
        return DeepSteps()

    from agent.run.exec_steps import ExecSteps  # imports the one-tool agent

    return ExecSteps()
