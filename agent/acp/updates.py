"""Turns the events of a turn into updates for an editor."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from acp.helpers import SessionUpdate, text_block, tool_content, update_plan, update_tool_call
from acp.schema import AgentMessageChunk, ToolCallStatus

from agent.acp.tool_calls import PLAN, HostPath, block, plan_of, started
from agent.run import (
    CommandEnded,
    CommandStarted,
    Event,
    Message,
    Output,
    SecretSuspected,
    TextDelta,
    ToolEnded,
    ToolStarted,
)

__all__ = ["Updates", "said"]

_LIVE_CHARS = 8_000
_LIVE_SECONDS = 0.1
"""Seconds between two updates of a running command, each with its last 8,000 characters."""
_GRANTED = {
    "command": "you approved exactly this for the rest of this session",
    "tool": "you approved any call of this tool for the rest of this session",
    "rule": "a rule allows this",
    "effect": "it ran at once, and changed nothing that needs approval",
}


@dataclass
class _Call:
    """A call that was sent to the editor and has not ended."""

    live: str = ""
    """The last characters of its output."""
    shown_at: float = 0.0
    due: bool = False
    """Whether output was not sent yet."""
    notes: list[str] = field(default_factory=list)


class Updates:
    """Turns the events of one turn into updates, and keeps the open calls.

    Text of subagents is left out. Calls of subagents are shown, because they may need an approval.
    """

    def __init__(self, on_host: HostPath) -> None:
        self._on_host = on_host
        self._calls: dict[str, _Call] = {}
        self._ended: set[str] = set()
        self._streamed: dict[str, str] = {}

    def of(self, event: Event) -> Iterator[SessionUpdate]:
        """Yield the updates for an event."""
        match event:
            case TextDelta(message_id=message_id, text=text, subagent=False):
                self._streamed[message_id] = self._streamed.get(message_id, "") + text
                yield said(message_id, text)
            case Message():
                yield from self._message(event)
            case ToolStarted(name=name, args=args) if name == PLAN:
                if not event.subagent:
                    yield update_plan(plan_of(args))
            case ToolStarted(call_id=call_id, name=name, args=args):
                yield from self._begun(call_id, name, args, event.granted)
            case CommandStarted(call_id=call_id, language=language, code=code):
                yield from self._begun(call_id, "execute", {"command": code}, event.granted, language)
            case Output(call_id=call_id, text=text) if call_id in self._calls:
                call = self._calls[call_id]
                call.live, call.due = (call.live + text)[-_LIVE_CHARS:], True
                if update := self.due(call_id):
                    yield update
            case SecretSuspected(call_id=call_id, found=found) if call_id in self._calls:
                self._calls[call_id].notes += [
                    f"Line {each['line']} looks like a secret ({each['kind']}) that is not known as one."
                    for each in found
                ]
            case ToolEnded(call_id=call_id, name=name, error=error) if name != PLAN:
                yield self.end(call_id, "failed" if error else "completed", [error] if error else [])
            case CommandEnded():
                yield self._command_ended(event)
            case _:
                pass

    def due(self, call_id: str | None = None) -> SessionUpdate | None:
        """Return an update with the output of a running command; None if none is due.

        Args:
            call_id: consider only this call.
        """
        now = time.monotonic()
        for each, call in self._calls.items():
            if call.due and now - call.shown_at >= _LIVE_SECONDS and call_id in (None, each):
                call.shown_at, call.due = now, False
                return update_tool_call(each, content=[block(call.live)])
        return None

    def asked(self, call_id: str, name: str, args: Mapping[str, Any]) -> Iterator[SessionUpdate]:
        """Yield the start of a call that needs approval, if the editor does not know the call."""
        if call_id not in self._calls:
            yield self._start(call_id, name, args, "pending")

    def recall(self, calls: Sequence[Mapping[str, Any]]) -> None:
        """Add calls that were sent to the editor before this turn."""
        self._calls |= {str(call["id"]): _Call() for call in calls}

    def close_all(self, note: str) -> list[SessionUpdate]:
        """Return the end of every open call."""
        return [self.end(call_id, "failed", [note]) for call_id in list(self._calls)]

    def end(self, call_id: str, status: ToolCallStatus, notes: Sequence[str] = ()) -> SessionUpdate:
        """Return the end of a call that is not a command, or did not run."""
        call = self._calls.get(call_id, _Call())
        self._forget(call_id)
        texts = [*([call.live] if call.live else []), *call.notes, *notes]
        # Without texts the content of the call stays.
        return update_tool_call(call_id, status=status, content=[block(text) for text in texts] or None)

    def _message(self, message: Message) -> Iterator[SessionUpdate]:
        if not message.subagent:
            streamed = self._streamed.pop(message.message_id, "")
            rest = message.text.removeprefix(streamed) if message.text.startswith(streamed) else ""
            if rest:
                yield said(message.message_id, rest)
        for call in message.tool_calls:
            if call["name"] != PLAN:
                yield self._start(str(call["id"]), call["name"], call["args"], "pending")

    def _begun(
        self,
        call_id: str,
        name: str,
        args: Mapping[str, Any],
        granted: str | None,
        language: str = "bash",
    ) -> Iterator[SessionUpdate]:
        if call_id in self._calls:
            yield update_tool_call(call_id, status="in_progress")
        elif call_id not in self._ended:
            yield self._start(call_id, name, args, "in_progress")
        if call_id in self._calls and granted:
            self._calls[call_id].notes.append(f"Nobody was asked: {_GRANTED[granted]}.")
        if call_id in self._calls and language != "bash":
            self._calls[call_id].notes.append(f"Language: {language}.")

    def _start(
        self, call_id: str, name: str, args: Mapping[str, Any], status: ToolCallStatus
    ) -> SessionUpdate:
        self._calls[call_id] = _Call()
        return started(call_id, name, args, self._on_host, status=status)

    def _command_ended(self, event: CommandEnded) -> SessionUpdate:
        call_id, done = event.call_id, event.execution
        status: ToolCallStatus = "completed" if done["exit_code"] == 0 else "failed"
        notes = [*self._calls.get(call_id, _Call()).notes, event.ended]
        content = [block(done["output"])] if done["output"].strip() else []
        self._forget(call_id)
        return update_tool_call(
            call_id,
            status=status,
            content=[*content, tool_content(text_block("\n".join(notes)))],
            raw_output={"exit_code": done["exit_code"], "seconds": done["seconds"]},
        )

    def _forget(self, call_id: str) -> None:
        self._calls.pop(call_id, None)
        self._ended.add(call_id)


def said(message_id: str, text: str) -> AgentMessageChunk:
    """Return a piece of the model's text."""
    return AgentMessageChunk(
        session_update="agent_message_chunk", content=text_block(text), message_id=message_id
    )
