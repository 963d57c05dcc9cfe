"""Give subagents the same middleware as the agent that starts them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from deepagents.middleware.subagents import GENERAL_PURPOSE_SUBAGENT, SubAgent
from langchain.agents.middleware.types import AgentMiddleware

__all__ = ["bound_subagents"]


def bound_subagents(
    middleware: Sequence[AgentMiddleware[Any, Any, Any]], subagents: Sequence[SubAgent] = ()
) -> list[SubAgent]:
    """Return the general-purpose subagent and `subagents`, each with `middleware` after its own.

    `create_deep_agent` gives custom middleware to the main agent only. Middleware that must bind all agents
    (approvals, budgets, file tools) is passed here, in the main agent's order; the result is passed as
    `subagents=`. A subagent's own entry of the same name is replaced, so no subagent can loosen a rule.

    Raises:
        ValueError: a subagent is compiled or remote, so its tools cannot be wrapped, or sets `interrupt_on`,
            which would ask a second time.
    """
    specs = list(subagents)
    if not any(spec["name"] == GENERAL_PURPOSE_SUBAGENT["name"] for spec in specs):
        specs.insert(0, GENERAL_PURPOSE_SUBAGENT)
    return [_bound(spec, middleware) for spec in specs]


def _bound(spec: SubAgent, middleware: Sequence[AgentMiddleware[Any, Any, Any]]) -> SubAgent:
    if "runnable" in spec or "graph_id" in spec:
        raise ValueError(f"Subagent {spec['name']!r} is not declarative: its tools would run unapproved.")
    if "interrupt_on" in spec:
        raise ValueError(f"Subagent {spec['name']!r} sets interrupt_on; approvals are set in one place.")
    names = {entry.name for entry in middleware}
    own = [entry for entry in spec.get("middleware", []) if entry.name not in names]
    return cast("SubAgent", {**spec, "middleware": [*own, *middleware]})
