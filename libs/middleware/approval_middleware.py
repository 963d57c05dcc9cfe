"""The approval gate as LangChain middleware: gated tool calls of an agent wait for a person."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from operator import or_
from typing import Annotated, Any, NotRequired, cast, get_args

from langchain.agents.middleware import HumanInTheLoopMiddleware, InterruptOnConfig
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
from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.config import get_config
from langgraph.runtime import Runtime
from langgraph.types import Command
from pydantic import BaseModel

from libs.middleware.approvals import ask, require_checkpointer
from libs.middleware.decisions import DecisionType, Edit, Reject, Request, digest
from libs.middleware.grants import Grant, Granted, Grants, Held

__all__ = ["ApprovalMiddleware", "GrantsKept"]

_thread: ContextVar[tuple[object, Grants] | None] = ContextVar("thread", default=None)
"""Inside a tool call of the outermost agent, so in every subagent: the thread's id and its grants."""


class ApprovalState(AgentState[Any]):
    """What the gate keeps: never part of an agent's input or output."""

    approved_calls: NotRequired[Annotated[dict[str, str], PrivateStateAttr]]
    """Of the latest turn: tool call id -> digest of the call that may run."""
    hitl_edited_tool_calls: NotRequired[Annotated[dict[str, Action], PrivateStateAttr]]
    """Of the latest turn: tool call id -> the call a person put in its place."""
    granted_calls: NotRequired[Annotated[dict[str, str], PrivateStateAttr]]
    """Of the latest turn: tool call id -> the scope, command or tool, of the earlier approval that covers it.
    With `tool`, nobody has seen this very call."""
    grants: NotRequired[Annotated[dict[str, Grant | None], PrivateStateAttr, or_]]
    """Of the thread: see `libs.middleware.grants`. In subagents empty."""
    grants_at_reply: NotRequired[Annotated[Grants, PrivateStateAttr]]
    """The thread's grants when the latest reply was made."""


class GrantsKept(AgentMiddleware[Any, Any, Any]):
    """In the gate's place where nobody is asked: a thread keeps its grants for when somebody is again."""

    state_schema = ApprovalState


class ApprovalMiddleware(HumanInTheLoopMiddleware[Any, Any, Any]):
    """Ask a person before a gated tool runs, and run exactly what was approved.

    All gated calls of a turn are one question (see `libs.middleware.approvals`); the turn's other calls
    wait with them. Every call is bound to its approval by a digest that is checked when it runs: a gated
    call that was changed afterwards, or never asked about, does not run, and the model is told so.

    List it behind all middleware that could change a call, so that nothing changes one after the check. It
    keeps nothing itself and may serve an agent and its subagents at once.

    Args:
        interrupt_on: gated tool name -> decisions that are offered for it. Fixed here: nothing that a file,
            page or tool says can change it.
        tools: tools whose argument schemas check an edit. Only needed where `edit` is offered.

    Raises:
        ValueError: a tool has no decisions, an unknown one, or no way to be approved or refused.
    """

    state_schema = ApprovalState

    def __init__(
        self, interrupt_on: Mapping[str, Sequence[DecisionType]], *, tools: Iterable[BaseTool] = ()
    ) -> None:
        for name, offered in interrupt_on.items():
            if unknown := [decision for decision in offered if decision not in get_args(DecisionType)]:
                raise ValueError(f"{name}: unknown decisions {unknown}; use approve, reject, edit.")
            if not {"approve", "reject"} <= set(offered):
                raise ValueError(f"{name}: approve and reject must both be offered, or it gets stuck.")
        super().__init__(
            {
                name: InterruptOnConfig(allowed_decisions=list(offered))
                for name, offered in interrupt_on.items()
            }
        )
        self._offered = {name: tuple(offered) for name, offered in interrupt_on.items()}
        self._schemas = {tool.name: _args_schema(tool) for tool in tools}

    def before_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:  # noqa: ARG002
        """Refuse, before the first model call, a run in which nobody could be asked.

        Raises:
            CheckpointerRequired: the run has no checkpointer.
        """
        require_checkpointer()

    def after_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """Ask about the gated calls of the latest reply; record what may run, answer what may not.

        Raises:
            GraphInterrupt: the question has no answer yet.
        """
        reply, answered = _latest_reply(state)
        calls = _told_apart(reply) if reply else []
        gated = [call for call in calls if call["name"] in self._offered and call["id"] not in answered]
        update: dict[str, Any] = {"approved_calls": {}, "hitl_edited_tool_calls": {}, "granted_calls": {}}
        if reply is None or not gated:
            return update if any(state.get(key) for key in update) else None
        requests = [
            Request(call["name"], call["args"], str(call["id"]), self._schemas.get(call["name"]))
            for call in gated
        ]
        refusals: list[ToolMessage] = []
        held = Held(_grants(state), cast("Grants", state.get("grants_at_reply") or {}))
        for request, decision in zip(requests, ask(requests, self._offered, held), strict=True):
            match decision:
                case Granted(scope=scope):
                    update["granted_calls"][request.call_id] = scope
                    run = request.digest
                case Reject(message=reason):
                    refusals.append(_refusal(request, reason))
                    continue
                case Edit(edited_action=action):
                    update["hitl_edited_tool_calls"][request.call_id] = Action(
                        name=action.name, args=action.args
                    )
                    run = digest(action.name, action.args, request.call_id)
                case _:
                    run = request.digest
            update["approved_calls"][request.call_id] = run
        if calls != reply.tool_calls:
            reply = reply.model_copy(update={"tool_calls": calls})
        return {**update, "messages": [reply, *refusals]}

    async def aafter_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """As `after_model`."""
        return self.after_model(state, runtime)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """Note the thread's grants as they are now: no others count for the calls of this reply."""
        return _noting(request, _grants(request.state), handler(request))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """As `wrap_model_call`."""
        grants = _grants(request.state)
        return _noting(request, grants, await handler(request))

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
        """The answer in place of a gated call that is not the approved one."""
        call = request.tool_call
        # The tool that runs is `request.tool`, whatever the call is named: both must be what was approved.
        names = {call["name"], request.tool.name if request.tool else call["name"]}
        if not names & self._offered.keys():
            return None
        call_id = str(call["id"])
        edited = self._reviewer_edit(request)
        args = edited["args"] if edited else call["args"]
        approved = (request.state.get("approved_calls") or {}).get(call_id)
        if len(names) == 1 and approved == digest(call["name"], args, call_id):
            return None
        return ToolMessage(
            f"This {call['name']} call was not run: it is not the call that a person approved.",
            name=call["name"],
            tool_call_id=call_id,
            status="error",
        )


@contextmanager
def _for_subagents(request: ToolCallRequest) -> Iterator[None]:
    """Let a subagent that is started meanwhile see the thread's grants."""
    token = _thread.set((_thread_id(), _grants(request.state)))
    try:
        yield
    finally:
        _thread.reset(token)


def _grants(state: Any) -> Grants:
    """The grants of the thread, in whichever of its agents."""
    thread, grants = _thread.get() or (None, {})
    if thread is not None and thread == _thread_id():
        return grants
    return state.get("grants") or {}


def _thread_id() -> object:
    return get_config()["configurable"].get("thread_id")


def _noting(
    request: ModelRequest[Any], grants: Grants, response: ModelResponse[Any]
) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
    if grants == (request.state.get("grants_at_reply") or {}):
        return response
    return ExtendedModelResponse(response, Command(update={"grants_at_reply": grants}))


def _latest_reply(state: AgentState[Any]) -> tuple[AIMessage | None, set[str]]:
    """The model's latest message and the ids of its calls that have an answer already."""
    answered: set[str] = set()
    for message in reversed(state["messages"]):
        if isinstance(message, AIMessage):
            return message, answered
        if isinstance(message, ToolMessage):
            answered.add(message.tool_call_id)
    return None, answered


def _told_apart(reply: AIMessage) -> list[ToolCall]:
    """The reply's calls, each with an id of its own.

    Small models leave ids out or repeat them; an approval must belong to one call only.
    """
    seen: set[str | None] = {None, ""}
    calls: list[ToolCall] = []
    for index, call in enumerate(reply.tool_calls):
        call_id = f"{reply.id}-{index}" if call["id"] in seen else call["id"]
        seen.add(call_id)
        calls.append({**call, "id": call_id})
    return calls


def _refusal(request: Request, reason: str | None) -> ToolMessage:
    advice = f"Reason: {reason}" if reason else "Do not send the same call again unless the user asks for it."
    return ToolMessage(
        f"A person rejected this {request.name} call, so it was not run. {advice}",
        name=request.name,
        tool_call_id=request.call_id,
        status="error",
    )


def _args_schema(tool: BaseTool) -> type[BaseModel] | None:
    schema = tool.tool_call_schema
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        return schema
    return None
