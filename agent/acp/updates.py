"""The events of a turn as updates of its session."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from acp.helpers import (
    SessionUpdate,
    ToolCallContentVariant,
    start_tool_call,
    text_block,
    tool_content,
    update_plan,
    update_tool_call,
)
from acp.schema import AgentMessageChunk, ToolCallStatus

from agent.acp.tool_calls import HostPath, fenced, kind_of, locations, plan_of, proposed, title_of
from agent.events import (
    CommandEnded,
    CommandStarted,
    Event,
    Execution,
    Message,
    Output,
    SecretSuspected,
    TextDelta,
    ToolEnded,
    ToolStarted,
)
from libs.middleware.decisions import digest

__all__ = ["Updates", "said"]

_PLAN = "write_todos"
_MOST_BLOCKS = 100
_LIVE_CHARS = 8_000
_LIVE_SECONDS = 0.1
"""An update replaces what was shown, so a running command shows its last characters, so often."""
_GRANTED = {"command": "exactly this", "tool": "any call of this tool"}


@dataclass
class _Call:
    """A call that an editor was told of and that has not ended."""

    live: str = ""
    """The last of what it has printed."""
    shown_at: float = 0.0
    due: bool = False
    """Whether it has printed something that was not shown."""
    notes: list[str] = field(default_factory=list)


class Updates:
    """Turns the events of one turn into updates, and keeps the calls that have not ended.

    Texts of subagents are left out: their calls are shown, as they may need an approval.
    """

    def __init__(self, on_host: HostPath) -> None:
        self._on_host = on_host
        self._calls: dict[str, _Call] = {}
        self._ended: set[str] = set()
        self._by_digest: dict[str, str] = {}
        self._streamed: dict[str, str] = {}
        self._reply = ""
        """The id of the model's last reply."""

    def of(self, event: Event) -> Iterator[SessionUpdate]:
        """The updates for one event, in order."""
        match event:
            case TextDelta(message_id=message_id, text=text, subagent=False):
                self._streamed[message_id] = self._streamed.get(message_id, "") + text
                yield said(message_id, text)
            case Message():
                yield from self._message(event)
            case ToolStarted(name=name, args=args) if name == _PLAN:
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
            case ToolEnded(call_id=call_id, name=name, error=error) if name != _PLAN:
                yield self._end(call_id, "failed" if error else "completed", [error] if error else [])
            case CommandEnded(call_id=call_id, execution=execution):
                yield self._command_ended(call_id, execution)
            case _:
                pass

    def due(self, call_id: str | None = None) -> SessionUpdate | None:
        """What a running command has printed since it was shown last; None where that was just now.

        Args:
            call_id: look at this one only.
        """
        now = time.monotonic()
        for each, call in self._calls.items():
            if call.due and now - call.shown_at >= _LIVE_SECONDS and call_id in (None, each):
                call.shown_at, call.due = now, False
                return update_tool_call(each, content=[_block(call.live)])
        return None

    def call_id(self, request: Mapping[str, Any]) -> str:
        """The id of the call that a request is about; one of its own where that call was not told of."""
        if found := self._by_digest.get(request["digest"]):
            return found
        for index in range(_MOST_BLOCKS):  # of the code-block agent: the id is the reply's, and a number
            key = f"{self._reply}/{index}"
            if digest(request["name"], request["args"], key) == request["digest"]:
                return key
        return f"approval-{request['digest'][:16]}"

    def asked(self, call_id: str, name: str, args: Mapping[str, Any]) -> Iterator[SessionUpdate]:
        """A person is to be asked about this call: the editor must know of it."""
        if call_id not in self._calls:
            yield self._start(call_id, name, args, "pending")

    def recall(self, message_id: str, calls: Sequence[Mapping[str, Any]]) -> None:
        """Know the calls of a reply that the editor was told of before this turn."""
        for call_id, _ in self._named(message_id, calls):
            self._calls[call_id] = _Call()

    def closed(self, call_id: str, why: str) -> SessionUpdate:
        """The end of a call that did not run."""
        return self._end(call_id, "failed", [why])

    def done(self, call_id: str) -> SessionUpdate:
        """The end of a call that was only asked about."""
        return self._end(call_id, "completed", [])

    def close_all(self, note: str) -> list[SessionUpdate]:
        """The end of every call that has none."""
        return [self._end(call_id, "failed", [note]) for call_id in list(self._calls)]

    def _message(self, message: Message) -> Iterator[SessionUpdate]:
        if not message.subagent:
            streamed = self._streamed.pop(message.message_id, "")
            rest = message.text.removeprefix(streamed) if message.text.startswith(streamed) else ""
            if rest:
                yield said(message.message_id, rest)
        for call_id, call in self._named(message.message_id, message.tool_calls):
            if call["name"] != _PLAN:
                yield self._start(call_id, call["name"], call["args"], "pending")

    def _named(
        self, message_id: str, calls: Sequence[Mapping[str, Any]]
    ) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The calls of a reply with their ids, which requests for approval are about."""
        self._reply = message_id
        taken: set[str | None] = {None, ""}
        for index, call in enumerate(calls):
            # As the approval gate tells calls apart that have no id, or the same one.
            call_id = f"{message_id}-{index}" if call["id"] in taken else str(call["id"])
            taken.add(call_id)
            self._by_digest[digest(call["name"], call["args"], call_id)] = call_id
            yield call_id, call

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
            self._calls[call_id].notes.append(
                f"Nobody was asked: you approved {_GRANTED[granted]} for the rest of this session."
            )
        if call_id in self._calls and language != "bash":
            self._calls[call_id].notes.append(f"Language: {language}.")

    def _start(
        self, call_id: str, name: str, args: Mapping[str, Any], status: ToolCallStatus
    ) -> SessionUpdate:
        self._calls[call_id] = _Call()
        return start_tool_call(
            call_id,
            title_of(name, args),
            kind=kind_of(name),
            status=status,
            content=proposed(name, args, self._on_host),
            locations=locations(args, self._on_host),
            raw_input=dict(args),
        )

    def _command_ended(self, call_id: str, done: Execution) -> SessionUpdate:
        ended = "stopped" if done.exit_code is None else f"exit {done.exit_code}"
        status: ToolCallStatus = "completed" if done.exit_code == 0 else "failed"
        notes = [*self._calls.get(call_id, _Call()).notes, f"{ended}, {done.seconds:.1f} s"]
        content = [_block(done.output)] if done.output.strip() else []
        self._forget(call_id)
        return update_tool_call(
            call_id,
            status=status,
            content=[*content, tool_content(text_block("\n".join(notes)))],
            raw_output={"exit_code": done.exit_code, "seconds": done.seconds},
        )

    def _end(self, call_id: str, status: ToolCallStatus, notes: list[str]) -> SessionUpdate:
        call = self._calls.get(call_id, _Call())
        self._forget(call_id)
        texts = [*call.notes, *notes]
        if not texts and not call.live:
            return update_tool_call(call_id, status=status)  # what it would do stays to be seen
        content = [_block(call.live)] if call.live else []
        return update_tool_call(call_id, status=status, content=[*content, *(_block(text) for text in texts)])

    def _forget(self, call_id: str) -> None:
        self._calls.pop(call_id, None)
        self._ended.add(call_id)


def said(message_id: str, text: str) -> AgentMessageChunk:
    """A piece of what the model says."""
    return AgentMessageChunk(
        session_update="agent_message_chunk", content=text_block(text), message_id=message_id
    )


def _block(text: str) -> ToolCallContentVariant:
    return tool_content(text_block(fenced(text)))
