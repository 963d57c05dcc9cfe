"""A thread that is loaded, as the updates that an editor would have been sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from acp.helpers import (
    SessionUpdate,
    start_tool_call,
    text_block,
    tool_content,
    update_plan,
    update_user_message_text,
)
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolCall, ToolMessage

from agent.acp.tool_calls import HostPath, fenced, kind_of, locations, plan_of, proposed, title_of
from agent.acp.updates import said
from libs.middleware.told import by_person

__all__ = ["last_calls", "replayed"]

_PLAN = "write_todos"


def replayed(messages: Sequence[AnyMessage], on_host: HostPath) -> Iterator[SessionUpdate]:
    """What was said and done, in order; at last the plan, where there is one."""
    results = {message.tool_call_id: message for message in messages if isinstance(message, ToolMessage)}
    plan: ToolCall | None = None
    for message in messages:
        if by_person(message):
            yield update_user_message_text(message.text)
        elif isinstance(message, HumanMessage):
            # What the program says to the model is not for people, but for what blocks have printed.
            if "blocks" in message.response_metadata:
                yield said(str(message.id), fenced(message.text))
        elif isinstance(message, AIMessage):
            if message.text:
                yield said(str(message.id), message.text)
            for call in message.tool_calls:
                if call["name"] == _PLAN:
                    plan = call
                else:
                    yield _call(call, results.get(str(call["id"])), on_host)
    if plan:
        yield update_plan(plan_of(plan["args"]))


def last_calls(messages: Sequence[AnyMessage]) -> tuple[str, Sequence[ToolCall]]:
    """The id of the model's last reply, and its calls that have no result."""
    done = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            return str(message.id), [call for call in message.tool_calls if call["id"] not in done]
    return "", []


def _call(call: ToolCall, result: ToolMessage | None, on_host: HostPath) -> SessionUpdate:
    content = proposed(call["name"], call["args"], on_host)
    if result is not None:
        content.append(tool_content(text_block(fenced(result.text))))
    exit_code = ((result.artifact if result else None) or {}).get("exit_code", 0)
    failed = result is not None and (result.status == "error" or exit_code != 0)
    return start_tool_call(
        str(call["id"]),
        title_of(call["name"], call["args"]),
        kind=kind_of(call["name"]),
        status="pending" if result is None else "failed" if failed else "completed",
        content=content,
        locations=locations(call["args"], on_host),
        raw_input=dict(call["args"]),
    )
