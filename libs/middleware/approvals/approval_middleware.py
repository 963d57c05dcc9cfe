"""LangChain middleware that lets gated tool calls wait for a person's approval."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain.agents.middleware.human_in_the_loop import Action
from langchain.agents.middleware.types import (
    AgentState,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    ToolCallRequest,
)
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.config import get_config
from langgraph.runtime import Runtime
from langgraph.types import Command

from libs.middleware.approvals.approval_gate import require_checkpointer
from libs.middleware.approvals.approvals_off import (
    ApprovalState,
    denial,
    denied_answer,
    marked,
    recorded,
    with_unique_ids,
)
from libs.middleware.approvals.decision_log import DecisionLog, decision_record
from libs.middleware.approvals.decisions import Edit, Reject
from libs.middleware.approvals.edited_calls import with_edits
from libs.middleware.approvals.gate_rules import GateRules, InterruptMode, InterruptOn
from libs.middleware.approvals.grants import Granted, Grants, Held
from libs.middleware.approvals.question import Request, digest
from libs.middleware.approvals.rules import RULED, CallRules, Denied, RulesFile, read_rules, read_rules_now
from libs.middleware.approvals.settle_calls import Settled, settled
from libs.middleware.open_calls import not_run, open_calls
from libs.private_names import EDITED_TOOL_CALLS

__all__ = ["ApprovalMiddleware"]

_thread: ContextVar[tuple[object, Grants] | None] = ContextVar("thread", default=None)
"""Set inside tool calls, for the subagents that they start: the thread's id and its grants."""


class ApprovalMiddleware(HumanInTheLoopMiddleware[Any, Any, Any]):
    """Ask a person before a gated tool runs, and run exactly the approved call.

    All gated calls of a turn are asked about before any call of the turn runs: with one question, or with one
    for each call (see `approval_gate`).
    A digest binds each approval to its call. A gated call that was changed after the approval, or never asked
    about, does not run, and the model gets an error.

    Place this middleware after all middleware that can change a call. One instance can serve an agent and its
    subagents.

    Args:
        interrupt_on: the gated tools, see `GateRules`. No file, page or tool can change them.
        interrupt_mode: see `GateRules`.
        rules: the rules file. Nobody is asked about calls that a rule allows or denies. None: no rules.
        log: records each decision.

    Raises:
        ValueError: see `GateRules`.
    """

    state_schema = ApprovalState

    def __init__(
        self,
        interrupt_on: InterruptOn,
        *,
        interrupt_mode: InterruptMode = "batched",
        rules: RulesFile | None = None,
        log: DecisionLog | None = None,
    ) -> None:
        self._rules_file = rules or RulesFile(None)
        self._log = log
        self._rules = GateRules(interrupt_on, interrupt_mode)
        # LangChain's middleware asks no questions here. It only runs edited calls, and tells the model about
        # the edit.
        super().__init__(dict(self._rules.configs), interrupt_mode="batched")

    def before_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:  # noqa: ARG002
        """Fail before the first model call if nobody can be asked.

        Raises:
            CheckpointerRequired: the run has no checkpointer.
        """
        require_checkpointer()

    def after_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """Decide on the gated calls of the latest reply. Record approved calls and answer refused calls.

        Raises:
            GraphInterrupt: the question has no answer yet.
        """
        update = self._decided(state, read_rules_now(self._rules_file))
        if self._log and update:
            self._log.add(list(update["decided_calls"].values()))
        return update

    async def aafter_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """As `after_model`."""
        calls = [(call["name"], call["args"]) for call in open_calls(state["messages"])]
        update = self._decided(state, await read_rules(self._rules_file, calls))
        if self._log and update and update["decided_calls"]:
            await asyncio.to_thread(self._log.add, list(update["decided_calls"].values()))
        return update

    def _decided(self, state: AgentState[Any], rules: CallRules) -> dict[str, Any] | None:
        gated = [call for call in open_calls(state["messages"]) if self._is_gated(call["name"])]
        update: dict[str, Any] = {
            "approved_calls": {},
            EDITED_TOOL_CALLS: {},
            "granted_calls": {},
            "decided_calls": {},
        }
        if not gated:
            return update if any(state.get(key) for key in update) else None
        requests = [Request(call["name"], call["args"], str(call["id"])) for call in gated]
        refusals: list[ToolMessage] = []
        edits: dict[str, dict[str, Any]] = {}
        held = Held(_grants(state), cast("Grants", state.get("grants_at_reply") or {}))
        at_reply = cast("str", state.get("rules_at_reply") or "")
        decisions: list[Settled] = settled(requests, self._rules, rules, at_reply, held, state=state)
        for request, decision in zip(requests, decisions, strict=True):
            run = request.digest
            if decision is not None:
                update["decided_calls"][request.call_id] = decision_record(request, decision)
            match decision:
                case Denied():
                    refusals.append(denied_answer(request.name, request.call_id, decision))
                    continue
                case Granted(scope=scope):
                    update["granted_calls"][request.call_id] = scope
                case Reject(message=reason):
                    advice = (
                        f"Reason: {reason}"
                        if reason
                        else "Do not send the same call again unless the user asks for it."
                    )
                    text = f"A person rejected this {request.name} call, so it was not run. {advice}"
                    refused = not_run(request.name, request.call_id, text)
                    refused.artifact = {"rejected": True}  # for whoever shows the call: no text is parsed
                    refusals.append(refused)
                    continue
                case Edit(edited_action=edited):
                    action = Action(name=edited.name, args=edited.args)
                    update[EDITED_TOOL_CALLS][request.call_id] = action
                    edits[request.call_id] = edited.args
                    run = digest(edited.name, edited.args, request.call_id)
            update["approved_calls"][request.call_id] = run
        for refused in refusals:
            marked(refused, update["decided_calls"])
        messages: list[AnyMessage] = [*refusals]
        if edits:  # the marked reply replaces the reply with the same id
            reply = next(each for each in reversed(state["messages"]) if isinstance(each, AIMessage))
            messages.append(with_edits(reply, edits))
        return {**update, "messages": messages}

    def _is_gated(self, name: str) -> bool:
        return name in self._rules.configs or (name in RULED and self._rules_file.path is not None)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """Give each call a unique id. Save grants and rules: later ones do not count for this reply."""
        now = {
            "grants_at_reply": _grants(request.state),
            "rules_at_reply": read_rules_now(self._rules_file).digest,
        }
        return _saved(request, now, with_unique_ids(handler(request)))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """As `wrap_model_call`."""
        now = {
            "grants_at_reply": _grants(request.state),
            "rules_at_reply": (await read_rules(self._rules_file)).digest,
        }
        return _saved(request, now, with_unique_ids(await handler(request)))

    def wrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]],
    ) -> ToolMessage | Command[Any]:
        """Run a gated call only as it was approved. The result says who or what has decided."""
        with _for_subagents(request):
            stopped = self._stopped(request) or self._denied_since(request, read_rules_now(self._rules_file))
            result = stopped or super().wrap_tool_call(request, handler)
            return marked(result, request.state.get("decided_calls"))

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        """As `wrap_tool_call`."""
        with _for_subagents(request):
            rules = await read_rules(self._rules_file)
            stopped = self._stopped(request) or self._denied_since(request, rules)
            result = stopped or await super().awrap_tool_call(request, handler)
            return marked(result, request.state.get("decided_calls"))

    def _stopped(self, request: ToolCallRequest) -> ToolMessage | None:
        """Return an error for a gated call that differs from the approved call, else None."""
        call = request.tool_call
        # `request.tool` runs, whatever the name in the call. Both must be the approved tool.
        names = {call["name"], request.tool.name if request.tool else call["name"]}
        if not any(map(self._is_gated, names)):
            return None
        call_id = str(call["id"])
        edited = (request.state.get(EDITED_TOOL_CALLS) or {}).get(call_id)
        args = edited["args"] if edited else call["args"]
        approved = (request.state.get("approved_calls") or {}).get(call_id)
        if len(names) == 1 and approved == digest(call["name"], args, call_id):
            return None
        text = f"This {call['name']} call was not run: it is not the call that a person approved."
        return not_run(call["name"], call_id, text)

    def _denied_since(self, request: ToolCallRequest, rules: CallRules) -> ToolMessage | None:
        """Return an error for a call that rules deny which were written after the decision, else None."""
        if rules.digest == (request.state.get("rules_at_reply") or ""):
            return None
        found = denial(request, rules)
        return recorded(found, self._log) if found else None


@contextmanager
def _for_subagents(request: ToolCallRequest) -> Iterator[None]:
    """Pass the thread's grants to subagents that this call starts."""
    token = _thread.set((_thread_id(), _grants(request.state)))
    try:
        yield
    finally:
        _thread.reset(token)


def _grants(state: Any) -> Grants:
    """Return the grants of the thread, in the outermost agent or in a subagent."""
    thread, grants = _thread.get() or (None, {})
    if thread is not None and thread == _thread_id():
        return grants
    return state.get("grants") or {}


def _thread_id() -> object:
    return get_config()["configurable"].get("thread_id")


def _saved(
    request: ModelRequest[Any], now: dict[str, Any], response: ModelResponse[Any]
) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
    """Return the response, with an update of what the state has of `now` otherwise."""
    state: Any = request.state
    if all((state.get(key) or type(value)()) == value for key, value in now.items()):
        return response
    return ExtendedModelResponse(response, Command(update=now))
