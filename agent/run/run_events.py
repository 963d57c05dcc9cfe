"""The events of a run and its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from libs.sandbox import Execution

__all__ = [
    "Approval",
    "CommandEnded",
    "CommandStarted",
    "Event",
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
    """A piece of a reply that the model streams. The whole reply follows as `Message`."""

    message_id: str
    text: str
    subagent: bool


@dataclass(frozen=True, slots=True)
class Message:
    """A whole reply of the model."""

    message_id: str
    text: str
    tool_calls: Sequence[Mapping[str, Any]]
    """Each `{id, name, args}`."""
    subagent: bool


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool call that runs no command begins."""

    call_id: str
    name: str
    args: Mapping[str, Any]
    subagent: bool
    granted: str | None = None
    """See `CommandStarted`."""


@dataclass(frozen=True, slots=True)
class ToolEnded:
    """A tool call that runs no command has ended."""

    call_id: str
    name: str
    error: str | None
    """The message for the model if the call failed."""


@dataclass(frozen=True, slots=True)
class CommandStarted:
    """An approved command or block begins in the sandbox."""

    call_id: str
    language: str
    """`bash` or `python`."""
    code: str
    subagent: bool
    granted: str | None = None
    """Scope of the earlier approval that covers this call, `command` or `tool`; else None."""


@dataclass(frozen=True, slots=True)
class Output:
    """Live output of a command or block. A flood of output is sampled."""

    call_id: str
    text: str


@dataclass(frozen=True, slots=True)
class CommandEnded:
    """A command or a block has ended."""

    call_id: str
    execution: Execution

    @property
    def ended(self) -> str:
        """Exit code and seconds, in words. Nobody knows how long a command without a result ran.

        A call has no exit code if nothing ran, or if the end of a whole program is unknown.
        """
        code, seconds = self.execution["exit_code"], self.execution["seconds"]
        known = seconds or code not in (None, 125)
        return f"{'no exit code' if code is None else f'exit {code}'}{f', {seconds:.1f} s' if known else ''}"


@dataclass(frozen=True, slots=True)
class SecretSuspected:
    """The output of a command or block may hold an unknown secret."""

    call_id: str
    found: Sequence[Mapping[str, Any]]
    """Each `{kind, line, column, sample}`; the sample does not show the secret."""


@dataclass(frozen=True, slots=True)
class FileMade:
    """A file of the workspace is new or changed; `path` is relative to the workspace."""

    path: str


@dataclass(frozen=True, slots=True)
class Approval:
    """Calls that wait for approval; `question` is the interrupt's value (see `libs.middleware.approvals`)."""

    interrupt_id: str
    question: Mapping[str, Any]
    grants: Sequence[Mapping[str, Any]]
    """Grants for the rest of the thread: each `{tool, digest, shown}`."""


@dataclass(frozen=True, slots=True)
class Result:
    """How a run ended."""

    thread_id: str | None
    status: str
    text: str
    executions: Sequence[Execution] = ()
    files: Sequence[str] = ()
    absent_paths: Sequence[str] = ()
    """Paths that the task names and that do not exist at the end of the run."""


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
