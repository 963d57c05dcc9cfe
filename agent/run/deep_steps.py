"""Reads the steps of the deep agent: tool calls of the agent and its subagents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.types import StateSnapshot

from agent.run.run_events import CommandEnded, CommandStarted, Event, ToolEnded, ToolStarted
from agent.run.run_steps import messages_of, run_result
from libs.middleware.approvals import edited_in
from libs.middleware.open_calls import not_run, stopped_text
from libs.sandbox import Execution

__all__ = ["DeepSteps"]


class DeepSteps:
    """Reads `tasks` of the node `tools`, `updates` of the gate. Implements `agent.run.run_steps.Steps`."""

    def __init__(self) -> None:
        self._started: dict[str, Mapping[str, Any]] = {}
        self._granted: dict[str, str] = {}
        self._edited: dict[str, dict[str, Any]] = {}
        """Tool call id -> arguments of a call that a person has edited."""

    def read(self, mode: str, data: Any, *, subagent: bool) -> Iterator[Event]:
        """See `Steps.read`."""
        if mode == "updates":
            for update in data.values():
                if isinstance(update, dict):
                    self._granted |= update.get("granted_calls") or {}
                for message in messages_of(update):
                    if isinstance(message, AIMessage):
                        self._edited |= edited_in(message)
        elif mode == "tasks" and data["name"] == "tools":
            yield from (
                self._ended(data) if "result" in data else self._begun(data["input"], subagent=subagent)
            )

    def cut_off(self, state: StateSnapshot) -> tuple[str, Any] | None:
        """See `Steps.cut_off`: the model reads of each call without a result that its effect is unknown."""
        # Not `state.next`: it leaves out a call that has ended before the step was saved.
        if all(task.name != "tools" for task in state.tasks):
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
            not_run(call["name"], call["id"], stopped_text(call["name"]))
            for call in reply.tool_calls
            if call["id"] not in done
        ]
        return "tools", {"messages": answers}

    def _begun(self, calls: Any, *, subagent: bool) -> Iterator[Event]:
        for call in calls:
            # A subagent's call begins again when the thread goes on after an approval.
            if call["id"] in self._started:
                continue
            if edited := self._edited.get(call["id"]):
                call = {**call, "args": edited}  # noqa: PLW2901
            self._started[call["id"]] = call
            granted = self._granted.get(call["id"])
            yield self._start_of(call, subagent=subagent, granted=granted) or ToolStarted(
                call["id"], call["name"], call["args"], subagent, granted
            )

    def _ended(self, data: Mapping[str, Any]) -> Iterator[Event]:
        for message in messages_of(data["result"]):
            if not isinstance(message, ToolMessage) or message.tool_call_id not in self._started:
                continue
            call = self._started[message.tool_call_id]
            error = message.text if message.status == "error" else None
            yield from self._end_of(call, message) or [ToolEnded(message.tool_call_id, call["name"], error)]

    def _start_of(
        self, call: Mapping[str, Any], *, subagent: bool, granted: str | None
    ) -> CommandStarted | None:
        """Return the start event of a command; None for a call that runs no command."""
        if call["name"] != "execute":
            return None
        return CommandStarted(call["id"], "bash", str(call["args"].get("command", "")), subagent, granted)

    def _end_of(self, call: Mapping[str, Any], message: ToolMessage) -> Sequence[Event]:
        """Return the end events of a command; none for a call that runs no command."""
        if call["name"] != "execute":
            return []
        result = run_result(message)
        execution = Execution(
            language="bash",
            code=str(call["args"].get("command", "")),
            output=result.output if result else message.text,
            exit_code=result.exit_code if result else None,
            seconds=round(result.seconds, 3) if result else 0.0,
        )
        return [CommandEnded(message.tool_call_id, execution)]
