"""Turns the stream of an agent's graph into events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.types import StateSnapshot

from agent.run.run_events import Event
from libs.middleware.approvals import calls_as_run
from libs.sandbox import RunResult

__all__ = ["Steps", "messages_of", "run_result", "steps_taken"]


class Steps(Protocol):
    """Reads the stream of one run; each agent has its own implementation."""

    def read(self, mode: str, data: Any, *, subagent: bool) -> Iterator[Event]:
        """Yield the events in one chunk of the stream `mode`: `tasks`, `updates` or `custom`."""
        ...

    def cut_off(self, state: StateSnapshot) -> tuple[str, Any] | None:
        """Return the node of a step that was cut off and an answer for it, so that no effect is repeated.

        None where no step with effects was cut off.
        """
        ...


def messages_of(update: Any) -> list[AnyMessage]:
    """Return the messages that an update adds; none where the update replaces the list."""
    messages = update.get("messages", []) if isinstance(update, dict) else []
    return messages if isinstance(messages, list) else []


def run_result(message: ToolMessage) -> RunResult | None:
    """Return the `RunResult` in the artifact of a tool message; None where no command ran."""
    try:
        return RunResult(**message.artifact)
    except TypeError:  # no artifact, or an artifact of another tool or version
        return None


def steps_taken(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the steps of the latest run in a thread's state, each `{type: "tool", name, args, result}`.

    The steps are the tool calls with a result since the person's message, in order, and the code blocks as
    calls of `execute_code`.
    """
    messages: list[AnyMessage] = values.get("messages", [])
    begun = max((n for n, message in enumerate(messages) if isinstance(message, HumanMessage)), default=0)
    ours = messages[begun:]
    results = {message.tool_call_id: message.text for message in ours if isinstance(message, ToolMessage)}
    calls = [
        (call["name"], call["args"], results[str(call["id"])])
        for message in ours
        if isinstance(message, AIMessage)
        for call in calls_as_run(message)
        if call["id"] in results
    ]
    blocks = [
        ("execute_code", {"language": each["language"], "code": each["code"]}, each["output"])
        for each in values.get("executions") or []
    ]
    return [
        {"type": "tool", "name": name, "args": args, "result": result}
        for name, args, result in [*calls, *blocks]
    ]
