"""LangChain middleware that lets gated tool calls wait for a person's approval."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, cast

from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain.agents.middleware.types import (
    AgentState,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    ToolCallRequest,
)
from langchain_core.messages import ToolMessage
from langgraph.config import get_config
from langgraph.runtime import Runtime
from langgraph.types import Command

from libs.middleware.approvals.approval_gate import require_checkpointer
from libs.middleware.approvals.approvals_off import ApprovalState, denial, marked, recorded, with_unique_ids
from libs.middleware.approvals.decided_calls import Decided, Effects, updated
from libs.middleware.approvals.decision_log import DecisionLog
from libs.middleware.approvals.gate_rules import GateRules, InterruptMode, InterruptOn
from libs.middleware.approvals.grants import Grants, Held
from libs.middleware.approvals.question import Request, digest
from libs.middleware.approvals.rules import RULED, CallRules, RulesFile, read_rules, read_rules_now
from libs.middleware.approvals.settle_calls import AtOnce, Settled, settled
from libs.middleware.open_calls import call_key, not_run, open_calls
from libs.private_names import EDITED_TOOL_CALLS
from libs.sandbox import MAX_TIMEOUT
from libs.sandbox.host import blocking, current_call

__all__ = ["ApprovalMiddleware"]

AtWork = Callable[[Any], AbstractContextManager[float]]

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
        effects: decides on calls by what they have done. None: a person decides before they run.
        at_work: takes the state, counts the time of its block as work of the run, and yields the seconds that
            are left.

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
        effects: Effects | None = None,
        at_work: AtWork = lambda _: nullcontext(MAX_TIMEOUT),
    ) -> None:
        self._effects = effects
        self._at_work = at_work
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
        if self._effects:
            blocking(self._lapse)(self._effects)

    async def abefore_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:  # noqa: ARG002
        """As `before_agent`."""
        require_checkpointer()
        if self._effects:
            await self._lapse(self._effects)

    @staticmethod
    async def _lapse(effects: Effects) -> None:
        # A subagent begins in the middle of a turn.
        if (_thread.get() or (None,))[0] != _thread_id():
            await effects.lapse()

    def after_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Decide on the gated calls of the latest reply. Record approved calls and answer refused calls.

        Raises:
            GraphInterrupt: the question has no answer yet.
        """
        if self._effects:
            return blocking(self.aafter_model)(state, runtime)
        requests = self._requests(state)
        decisions = _beforehand(self._settled(requests, state, read_rules_now(self._rules_file)))
        update = updated(state, requests, decisions)
        if self._log and update:
            self._log.add(list(update["decided_calls"].values()))
        return update

    async def aafter_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """As `after_model`."""
        requests = self._requests(state)
        rules = await read_rules(self._rules_file, [(each.name, each.args) for each in requests])
        update = updated(state, requests, await self._decided(requests, state, rules))
        if self._log and update and update["decided_calls"]:
            await asyncio.to_thread(self._log.add, list(update["decided_calls"].values()))
        return update

    def _requests(self, state: AgentState[Any]) -> list[Request]:
        gated = [call for call in open_calls(state["messages"]) if self._is_gated(call["name"])]
        return [Request(call["name"], call["args"], str(call["id"])) for call in gated]

    def _settled(
        self, requests: Sequence[Request], state: AgentState[Any], rules: CallRules, **at_once: Any
    ) -> list[Settled | AtOnce]:
        at_reply = cast("str", state.get("rules_at_reply") or "")
        return settled(requests, self._rules, rules, at_reply, _held(state), state=state, **at_once)

    async def _decided(
        self, requests: Sequence[Request], state: AgentState[Any], rules: CallRules
    ) -> list[Decided]:
        """Decide on calls: first on those that are decided on before they run, then on effects, in order."""
        effects = self._effects
        if effects is None or not requests:
            return _beforehand(self._settled(requests, state, rules))
        keys = {each.digest: call_key(state["messages"], each.call_id) or "" for each in requests}
        begun = await effects.begun(list(keys.values()))
        decisions = self._settled(
            requests,
            state,
            rules,
            at_once=[each.digest for each in requests if effects.covers(each)],
            begun=[digest for digest, key in keys.items() if key in begun],
        )
        decided = []
        for request, decision in zip(requests, decisions, strict=True):
            if isinstance(decision, AtOnce):
                key = keys[request.digest]
                with self._at_work(state) as seconds:
                    decided.append(
                        await effects.decided(
                            request, key, seconds, gate=self._rules, held=_held(state), state=state
                        )
                    )
            else:
                decided.append(Decided(decision))
        return decided

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
            stopped = self._not_to_run(request, read_rules_now(self._rules_file))
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
            stopped = self._not_to_run(request, rules)
            result = stopped or await super().awrap_tool_call(request, handler)
            return marked(result, request.state.get("decided_calls"))

    def _not_to_run(self, request: ToolCallRequest, rules: CallRules) -> ToolMessage | None:
        """Return an error for a call that must not run, else None."""
        if stopped := self._stopped(request):
            return stopped
        decided = (request.state.get("decided_calls") or {}).get(str(request.tool_call["id"])) or {}
        if "effect" in decided:
            current_call().recorded = True  # it has run: its result is looked up
            return None
        return self._denied_since(request, rules)

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


def _beforehand(decisions: Sequence[Settled | AtOnce]) -> list[Decided]:
    return [Decided(decision) for decision in decisions if not isinstance(decision, AtOnce)]


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


def _held(state: Any) -> Held:
    return Held(_grants(state), state.get("grants_at_reply") or {})


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
