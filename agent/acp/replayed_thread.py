"""Turns the messages of a loaded thread into updates for an editor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from acp.helpers import SessionUpdate, update_plan, update_user_message_text
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolCall, ToolMessage

from agent.acp.tool_calls import PLAN, HostPath, block, fenced, plan_of, started
from agent.acp.updates import said
from agent.run import run_result
from libs.middleware.approvals import calls_as_run
from libs.middleware.program_messages import by_person

__all__ = ["last_calls", "replayed"]


def replayed(messages: Sequence[AnyMessage], on_host: HostPath) -> Iterator[SessionUpdate]:
    """Yield updates for messages and calls in order, and at last for the plan."""
    results = {message.tool_call_id: message for message in messages if isinstance(message, ToolMessage)}
    plan: ToolCall | None = None
    for message in messages:
        if by_person(message):
            yield update_user_message_text(message.text)
        elif isinstance(message, HumanMessage):
            # Of the program's messages to the model, only the output of blocks is for people.
            if "blocks" in message.response_metadata:
                yield said(str(message.id), fenced(message.text))
        elif isinstance(message, AIMessage):
            if message.text:
                yield said(str(message.id), message.text)
            for call in calls_as_run(message):
                if call["name"] == PLAN:
                    plan = call
                else:
                    yield _call(call, results.get(str(call["id"])), on_host)
    if plan:
        yield update_plan(plan_of(plan["args"]))


def last_calls(messages: Sequence[AnyMessage]) -> list[ToolCall]:
    """Return the calls of the last reply that have no result."""
    done = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            return [call for call in message.tool_calls if call["id"] not in done]
    return []


def _call(call: ToolCall, result: ToolMessage | None, on_host: HostPath) -> SessionUpdate:
    call_id, name, args = str(call["id"]), call["name"], call["args"]
    if result is None:
        return started(call_id, name, args, on_host, status="pending")
    ended = run_result(result)
    failed = result.status == "error" or (ended is not None and ended.exit_code != 0)
    output = [block(ended.output if ended else result.text)]
    return started(call_id, name, args, on_host, status="failed" if failed else "completed", output=output)
