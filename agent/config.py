"""The inputs of every graph: gated calls, model, approvals and budget, computer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent.settings import Settings, SettingsError, check_model_name, load_settings

if TYPE_CHECKING:
    from langchain.agents.middleware import AgentMiddleware
    from langchain_core.language_models import BaseChatModel

    from libs.backends import WorkspaceBackend
    from libs.middleware.approvals import Effects, InterruptOn

__all__ = [
    "INTERRUPT_ON",
    "Settings",
    "SettingsError",
    "build_backend",
    "build_gates",
    "build_model",
    "given_or_loaded",
    "load_settings",
]

INTERRUPT_ON: InterruptOn = {
    "execute": {"allowed_decisions": ["approve", "reject"]},
    "edit_file": {"allowed_decisions": ["approve", "reject"]},
    "delete": {"allowed_decisions": ["approve", "reject"]},
    "execute_code": {"allowed_decisions": ["approve", "reject"]},
}
"""Calls that a person must approve, in every graph and subagent, and the offered decisions.

The form is LangChain's `interrupt_on`, see `libs.middleware.approvals.GateRules`. `INTERRUPT_MODE` says how a
person is asked.
"""


def given_or_loaded(settings: Settings | None) -> Settings:
    """Return the settings, by default those of the environment and `.env`.

    Raises:
        SettingsError: a setting is wrong.
        TypeError: the argument is not a `Settings`.
    """
    if settings is None:
        return load_settings()
    if not isinstance(settings, Settings):
        raise TypeError(f"settings has the type {type(settings).__name__}: give load_settings(model=…, …).")
    return settings


def build_model(settings: Settings, spec: str | None = None) -> BaseChatModel:
    """Make the chat model that `spec` names in the form of MODEL; without `spec`, the settings' model.

    See `agent.models.build_model`.

    Raises:
        SettingsError: `spec` has not the form of MODEL.
        TypeError: `spec` is not a text.
    """
    from agent.models import build_model as build

    if spec is not None and not isinstance(spec, str):
        raise TypeError(f"model is {spec!r}: give a chat model, or a name such as 'openai:gpt-5-mini'.")
    if spec:
        check_model_name(spec)
    return build(settings.model_copy(update={"model": spec}) if spec else settings)


def build_gates(settings: Settings, effects: Effects | None = None) -> list[AgentMiddleware[Any, Any, Any]]:
    """Make the approvals and the budget of an agent, and of each of its subagents.

    Args:
        effects: decides on calls by what they have done. None: a person decides before they run.

    Raises:
        SettingsError: the rules file is wrong.
    """
    from agent.parts import checked_rules, decision_log, run_budget
    from libs.middleware.approvals import ApprovalMiddleware, GrantsKept
    from libs.middleware.budget import BudgetMiddleware

    rules, log = checked_rules(settings), decision_log()
    budget = BudgetMiddleware(run_budget(settings))
    approvals = (
        GrantsKept(rules, log)
        if settings.approvals == "auto"
        else ApprovalMiddleware(
            INTERRUPT_ON,
            interrupt_mode=settings.interrupt_mode,
            rules=rules,
            log=log,
            effects=effects,
            at_work=budget.at_work,
        )
    )
    # The budget comes after the approvals: no person is asked about a call that cannot run any more.
    return [approvals, budget]


def build_backend(settings: Settings) -> WorkspaceBackend:
    """Make the agent's computer. Needs no Docker: the container starts at the first command."""
    from agent.parts import build_backend as build

    return build(settings)
