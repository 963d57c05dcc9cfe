"""What happens in a run, in the order in which it happens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "Approval",
    "CommandEnded",
    "CommandStarted",
    "Event",
    "Execution",
    "FileMade",
    "Message",
    "Output",
    "Result",
    "SecretSuspected",
    "TextDelta",
    "ToolEnded",
    "ToolStarted",
]


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of what the model says, while it says it. The whole follows as `Message`."""

    message_id: str
    text: str
    subagent: bool


@dataclass(frozen=True, slots=True)
class Message:
    """One whole reply of the model."""

    message_id: str
    text: str
    tool_calls: Sequence[Mapping[str, Any]]
    """Each `{id, name, args}`."""
    subagent: bool


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool other than a command begins."""

    call_id: str
    name: str
    args: Mapping[str, Any]
    subagent: bool
    granted: str | None = None
    """As of `CommandStarted`."""


@dataclass(frozen=True, slots=True)
class ToolEnded:
    """It has ended."""

    call_id: str
    name: str
    error: str | None
    """What the model is told where it failed."""


@dataclass(frozen=True, slots=True)
class CommandStarted:
    """A command or a block begins in the sandbox, approved where that is needed."""

    call_id: str
    language: str
    """`bash` or `python`."""
    code: str
    subagent: bool
    granted: str | None = None
    """Where nobody was asked because of an earlier approval: its scope, `command` or `tool`."""


@dataclass(frozen=True, slots=True)
class Output:
    """What a command or a block has printed, as it comes. Of a flood, only samples."""

    call_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Execution:
    """A command or a block with its end."""

    language: str
    code: str
    output: str
    exit_code: int | None
    """None where it was cut off, so that nobody knows."""
    seconds: float
    """Of a command from the start of its call to the result: that of the sandbox, where needed, included."""


@dataclass(frozen=True, slots=True)
class CommandEnded:
    """A command or a block has ended."""

    call_id: str
    execution: Execution


@dataclass(frozen=True, slots=True)
class SecretSuspected:
    """A command or a block has printed what looks like a secret that is not known as one."""

    call_id: str
    found: Sequence[Mapping[str, Any]]
    """Each `{kind, line, column, sample}`; the sample gives nothing away."""


@dataclass(frozen=True, slots=True)
class FileMade:
    """A file of the workspace is new or has changed. `path` is relative to the workspace."""

    path: str


@dataclass(frozen=True, slots=True)
class Approval:
    """Calls that wait for a person; `question` is the interrupt's value (see `libs.middleware.approvals`)."""

    interrupt_id: str
    question: Mapping[str, Any]
    grants: Sequence[Mapping[str, Any]]
    """What was approved for the rest of the thread before: each `{tool, digest, shown}`."""


@dataclass(frozen=True, slots=True)
class Result:
    """How a run ended."""

    thread_id: str | None
    status: str
    text: str
    executions: Sequence[Execution] = ()
    files: Sequence[str] = ()


Event = (
    TextDelta
    | Message
    | ToolStarted
    | ToolEnded
    | CommandStarted
    | Output
    | CommandEnded
    | SecretSuspected
    | FileMade
    | Approval
)
"""Everything but the result."""
