"""The steps of the deep agent: calls of tools, its own and those of its subagents."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.types import StateSnapshot

from agent.events import CommandEnded, CommandStarted, Event, Execution, ToolEnded, ToolStarted
from agent.steps import messages_of

__all__ = ["DeepSteps"]

_VERDICT = re.compile(
    r"\n\[Command (?:succeeded|failed) with exit code -?\d+\](?:\n\[Output was truncated.*\])?\Z"
)
"""What deepagents adds to a command's output for the model."""
_STOPPED = (
    "This {name} call was stopped while it ran, with all that it had started. How far it came is unknown: "
    "look before you repeat anything."
)


class DeepSteps:
    """Reads `tasks` of the node `tools`, `updates` of the gate. Implements `agent.steps.Steps`."""

    def __init__(self) -> None:
        self._started: dict[str, tuple[float, Mapping[str, Any]]] = {}
        self._granted: dict[str, str] = {}

    def read(self, mode: str, data: Any, *, subagent: bool) -> Iterator[Event]:
        """See `Steps.read`."""
        if mode == "updates":
            for update in data.values():
                if isinstance(update, dict):
                    self._granted |= update.get("granted_calls") or {}
        elif mode == "tasks" and data["name"] == "tools":
            yield from (
                self._ended(data) if "result" in data else self._begun(data["input"], subagent=subagent)
            )

    def cut_off(self, state: StateSnapshot) -> tuple[str, Any] | None:
        """See `Steps.cut_off`: the model reads of each call without a result that its effect is unknown."""
        if "tools" not in state.next:
            return None
        done = {
            message.tool_call_id
            for message in [
                *state.values.get("messages", []),
                *(message for task in state.tasks for message in messages_of(task.result)),
            ]
            if isinstance(message, ToolMessage)
        }
        reply = next(m for m in reversed(state.values["messages"]) if isinstance(m, AIMessage))
        answers = [
            ToolMessage(
                _STOPPED.format(name=call["name"]), name=call["name"], tool_call_id=call["id"], status="error"
            )
            for call in reply.tool_calls
            if call["id"] not in done
        ]
        return "tools", {"messages": answers}

    def _begun(self, calls: Any, *, subagent: bool) -> Iterator[Event]:
        for call in calls:
            # A subagent's call begins again when the thread goes on after an approval.
            if call["id"] in self._started:
                continue
            self._started[call["id"]] = time.monotonic(), call
            granted = self._granted.get(call["id"])
            yield self._start_of(call, subagent=subagent, granted=granted) or ToolStarted(
                call["id"], call["name"], call["args"], subagent, granted
            )

    def _ended(self, data: Mapping[str, Any]) -> Iterator[Event]:
        for message in messages_of(data["result"]):
            if not isinstance(message, ToolMessage) or message.tool_call_id not in self._started:
                continue
            since, call = self._started[message.tool_call_id]
            error = message.text if message.status == "error" else None
            yield from self._end_of(call, message, since) or [
                ToolEnded(message.tool_call_id, call["name"], error)
            ]

    def _start_of(
        self, call: Mapping[str, Any], *, subagent: bool, granted: str | None
    ) -> CommandStarted | None:
        """That a call's command begins; None where the call runs none."""
        if call["name"] != "execute":
            return None
        return CommandStarted(call["id"], "bash", str(call["args"].get("command", "")), subagent, granted)

    def _end_of(self, call: Mapping[str, Any], message: ToolMessage, since: float) -> Sequence[Event]:
        """That it has ended; nothing where the call ran none."""
        if call["name"] != "execute":
            return []
        execution = Execution(
            language="bash",
            code=str(call["args"].get("command", "")),
            output=_VERDICT.sub("", message.text),
            exit_code=(message.artifact or {}).get("exit_code"),
            seconds=round(time.monotonic() - since, 3),
        )
        return [CommandEnded(message.tool_call_id, execution)]
