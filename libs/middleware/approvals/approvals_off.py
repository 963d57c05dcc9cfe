"""The middleware where approvals are off, and what both gates share: state, ids of calls, denied calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from operator import or_
from typing import Annotated, Any, NotRequired

from langchain.agents.middleware.human_in_the_loop import Action
from langchain.agents.middleware.types import (
    AgentMiddleware,
    AgentState,
    ModelRequest,
    ModelResponse,
    PrivateStateAttr,
    ToolCallRequest,
)
from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langgraph.types import Command

from libs.middleware.approvals.decision_log import DecisionLog, decision_record
from libs.middleware.approvals.grants import Grant, Grants
from libs.middleware.approvals.question import Request
from libs.middleware.approvals.rules import CallRules, Denied, RulesFile, read_rules, read_rules_now
from libs.middleware.open_calls import not_run

__all__ = ["ApprovalState", "GrantsKept", "denial", "denied_answer", "marked", "recorded", "with_unique_ids"]


class ApprovalState(AgentState[Any]):
    """Private state of the gate, never part of an agent's input or output."""

    approved_calls: NotRequired[Annotated[dict[str, str], PrivateStateAttr]]
    """Latest turn: tool call id -> digest of the approved call."""
    hitl_edited_tool_calls: NotRequired[Annotated[dict[str, Action], PrivateStateAttr]]
    """Latest turn: tool call id -> the call as a person edited it. Its name is `EDITED_TOOL_CALLS`."""
    granted_calls: NotRequired[Annotated[dict[str, str], PrivateStateAttr]]
    """Latest turn: tool call id -> scope of the grant that covers the call: `command`, `tool` or `rule`."""
    decided_calls: NotRequired[Annotated[dict[str, dict[str, Any]], PrivateStateAttr]]
    """Latest turn: tool call id -> the `decision_record` of the call."""
    rules_at_reply: NotRequired[Annotated[str, PrivateStateAttr]]
    """Digest of the rules file at the time of the latest reply."""
    grants: NotRequired[Annotated[dict[str, Grant | None], PrivateStateAttr, or_]]
    """The grants of the thread (see `grants`). Empty in subagents."""
    grants_at_reply: NotRequired[Annotated[Grants, PrivateStateAttr]]
    """The thread's grants at the time of the latest reply."""


class GrantsKept(AgentMiddleware[Any, Any, Any]):
    """Replaces the gate where approvals are off. Calls that a rule denies do not run.

    The thread keeps its grants, and calls get unique ids. A gate without gated tools would not do: the answer
    to a question that was asked before approvals were turned off would reach it, and a rejected call would
    run.

    Args:
        rules: the rules file. None: there are no rules.
        log: records denials.
    """

    def __init__(self, rules: RulesFile | None = None, log: DecisionLog | None = None) -> None:
        super().__init__()
        self._rules_file = rules or RulesFile(None)
        self._log = log

    state_schema = ApprovalState

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        return with_unique_ids(handler(request))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        return with_unique_ids(await handler(request))

    def wrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]],
    ) -> ToolMessage | Command[Any]:
        """Run a call only if no rule denies it."""
        if found := denial(request, read_rules_now(self._rules_file)):
            return recorded(found, self._log)
        return handler(request)

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        """As `wrap_tool_call`."""
        call = request.tool_call
        if found := denial(request, await read_rules(self._rules_file, [(call["name"], call["args"])])):
            return await asyncio.to_thread(recorded, found, self._log)
        return await handler(request)


def denied_answer(name: str, call_id: str | None, denied: Denied) -> ToolMessage:
    refused = not_run(name, call_id, f"This {name} call was not run. {denied.reason}")
    refused.artifact = {"rejected": True, "denied_by": denied.rule}
    return refused


def denial(request: ToolCallRequest, rules: CallRules) -> tuple[ToolMessage, dict[str, Any]] | None:
    """Return the answer to a call that a rule denies, and the record. None: no rule denies the call."""
    call = request.tool_call
    if (denied := rules.denial(call["name"], call["args"])) is None:
        return None
    record = decision_record(Request(call["name"], call["args"], str(call["id"])), denied)
    return denied_answer(call["name"], call["id"], denied), record


def recorded(found: tuple[ToolMessage, dict[str, Any]], log: DecisionLog | None) -> ToolMessage:
    message, record = found
    if log:
        log.add([record])
    marked(message, {str(message.tool_call_id): record})
    return message


def marked(
    result: ToolMessage | Command[Any], records: Mapping[str, dict[str, Any]] | None
) -> ToolMessage | Command[Any]:
    """Put the record of the decision on a call into the metadata of its result, so into the thread."""
    if isinstance(result, ToolMessage) and (record := (records or {}).get(result.tool_call_id)):
        result.response_metadata = {**result.response_metadata, "decision": record}
    return result


def with_unique_ids(response: ModelResponse[Any]) -> ModelResponse[Any]:
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
