"""LangChain middleware that lets gated tool calls wait for a person's approval."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from operator import or_
from typing import Annotated, Any, NotRequired, cast

from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain.agents.middleware.human_in_the_loop import Action
from langchain.agents.middleware.types import (
    AgentMiddleware,
    AgentState,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    PrivateStateAttr,
    ToolCallRequest,
)
from langchain_core.messages import AIMessage, AnyMessage, ToolCall, ToolMessage
from langgraph.config import get_config
from langgraph.runtime import Runtime
from langgraph.types import Command

from libs.middleware.approvals.approval_gate import ask, require_checkpointer
from libs.middleware.approvals.decisions import Edit, Reject
from libs.middleware.approvals.edited_calls import with_edits
from libs.middleware.approvals.gate_rules import GateRules, InterruptMode, InterruptOn
from libs.middleware.approvals.grants import Grant, Granted, Grants, Held
from libs.middleware.approvals.question import Request, digest
from libs.middleware.open_calls import not_run, open_calls
from libs.private_names import EDITED_TOOL_CALLS

__all__ = ["ApprovalMiddleware", "GrantsKept"]

_thread: ContextVar[tuple[object, Grants] | None] = ContextVar("thread", default=None)
"""Set inside tool calls, for the subagents that they start: the thread's id and its grants."""


class ApprovalState(AgentState[Any]):
    """Private state of the gate, never part of an agent's input or output."""

    approved_calls: NotRequired[Annotated[dict[str, str], PrivateStateAttr]]
    """Latest turn: tool call id -> digest of the approved call."""
    hitl_edited_tool_calls: NotRequired[Annotated[dict[str, Action], PrivateStateAttr]]
    """Latest turn: tool call id -> the call as a person edited it. Its name is `EDITED_TOOL_CALLS`."""
    granted_calls: NotRequired[Annotated[dict[str, str], PrivateStateAttr]]
    """Latest turn: tool call id -> scope (`command` or `tool`) of the grant that covers the call."""
    grants: NotRequired[Annotated[dict[str, Grant | None], PrivateStateAttr, or_]]
    """The grants of the thread (see `grants`). Empty in subagents."""
    grants_at_reply: NotRequired[Annotated[Grants, PrivateStateAttr]]
    """The thread's grants at the time of the latest reply."""


class GrantsKept(AgentMiddleware[Any, Any, Any]):
    """Replaces the gate where approvals are off. The thread keeps its grants, and calls get unique ids.

    A gate without gated tools would not do: the answer to a question that was asked before approvals were
    turned off would reach it, and a rejected call would run.
    """

    state_schema = ApprovalState

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        return _with_unique_ids(handler(request))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        return _with_unique_ids(await handler(request))


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

    Raises:
        ValueError: see `GateRules`.
    """

    state_schema = ApprovalState

    def __init__(self, interrupt_on: InterruptOn, *, interrupt_mode: InterruptMode = "batched") -> None:
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
        """Ask about the gated calls of the latest reply. Record approved calls and answer refused calls.

        Raises:
            GraphInterrupt: the question has no answer yet.
        """
        gated = [call for call in open_calls(state["messages"]) if call["name"] in self._rules.configs]
        update: dict[str, Any] = {"approved_calls": {}, EDITED_TOOL_CALLS: {}, "granted_calls": {}}
        if not gated:
            return update if any(state.get(key) for key in update) else None
        requests = [Request(call["name"], call["args"], str(call["id"])) for call in gated]
        refusals: list[ToolMessage] = []
        edits: dict[str, dict[str, Any]] = {}
        held = Held(_grants(state), cast("Grants", state.get("grants_at_reply") or {}))
        for request, decision in zip(requests, ask(requests, self._rules, held, state=state), strict=True):
            match decision:
                case Granted(scope=scope):
                    update["granted_calls"][request.call_id] = scope
                    run = request.digest
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
                case _:
                    run = request.digest
            update["approved_calls"][request.call_id] = run
        messages: list[AnyMessage] = [*refusals]
        if edits:  # the marked reply replaces the reply with the same id
            reply = next(each for each in reversed(state["messages"]) if isinstance(each, AIMessage))
            messages.append(with_edits(reply, edits))
        return {**update, "messages": messages}

    async def aafter_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """As `after_model`."""
        return self.after_model(state, runtime)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """Give each call a unique id. Save the thread's grants: later grants do not count for this reply."""
        grants = _grants(request.state)
        return _save_grants(request, grants, _with_unique_ids(handler(request)))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """As `wrap_model_call`."""
        grants = _grants(request.state)
        return _save_grants(request, grants, _with_unique_ids(await handler(request)))

    def wrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]],
    ) -> ToolMessage | Command[Any]:
        """Run a gated call only as it was approved."""
        with _for_subagents(request):
            return self._stopped(request) or super().wrap_tool_call(request, handler)

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        """As `wrap_tool_call`."""
        with _for_subagents(request):
            return self._stopped(request) or await super().awrap_tool_call(request, handler)

    def _stopped(self, request: ToolCallRequest) -> ToolMessage | None:
        """Return an error for a gated call that differs from the approved call, else None."""
        call = request.tool_call
        # `request.tool` runs, whatever the name in the call. Both must be the approved tool.
        names = {call["name"], request.tool.name if request.tool else call["name"]}
        if not names & self._rules.configs.keys():
            return None
        call_id = str(call["id"])
        edited = (request.state.get(EDITED_TOOL_CALLS) or {}).get(call_id)
        args = edited["args"] if edited else call["args"]
        approved = (request.state.get("approved_calls") or {}).get(call_id)
        if len(names) == 1 and approved == digest(call["name"], args, call_id):
            return None
        text = f"This {call['name']} call was not run: it is not the call that a person approved."
        return not_run(call["name"], call_id, text)


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


def _save_grants(
    request: ModelRequest[Any], grants: Grants, response: ModelResponse[Any]
) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
    if grants == (request.state.get("grants_at_reply") or {}):
        return response
    return ExtendedModelResponse(response, Command(update={"grants_at_reply": grants}))


def _with_unique_ids(response: ModelResponse[Any]) -> ModelResponse[Any]:
    """Give each call of the reply a unique id: small models omit or repeat ids."""
    reply = response.result[-1]
    if not isinstance(reply, AIMessage):
        return response
    seen: set[str | None] = {None, ""}
    calls: list[ToolCall] = []
    for index, call in enumerate(reply.tool_calls):
        call_id = f"{reply.id}-{index}" if call["id"] in seen else call["id"]
        seen.add(call_id)
        calls.append({**call, "id": call_id})
    if calls == reply.tool_calls:
        return response
    reply = reply.model_copy(update={"tool_calls": calls})
    return replace(response, result=[*response.result[:-1], reply])
