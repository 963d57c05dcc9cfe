"""What can go wrong below `execute`: one class per cause, each with what to do next.

A sandbox never raises for what a command does: a failing, killed or timed-out command is a
`RunResult`. It raises one of these when the command could not be run at all, or when nobody can say
how it ended.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Self

__all__ = [
    "CommandInterrupted",
    "CommandUnderWay",
    "DockerUnavailable",
    "ImageMissing",
    "KeyReused",
    "RecordUnavailable",
    "SandboxBusy",
    "SandboxDied",
    "SandboxError",
    "program",
]


def program() -> str:
    """How this installation's command is called from here, for hints that a person can paste.

    `code-agent` where that is on PATH; otherwise the one beside this interpreter, relative if it is below
    the working folder.
    """
    if shutil.which("code-agent"):
        return "code-agent"
    beside = Path(sys.executable).with_name("code-agent")
    if not beside.is_file():
        return "code-agent"
    return str(beside.relative_to(Path.cwd()) if beside.is_relative_to(Path.cwd()) else beside)


class SandboxError(Exception):
    """The sandbox could not do its part.

    `str(error)` says what happened; `hint` says what mends it, where possible as the exact command.
    """

    hint: str

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint

    def again(self) -> Self:
        """The same, to be raised once more: without the traceback, and what that keeps alive."""
        return type(self)(str(self), hint=self.hint)


class DockerUnavailable(SandboxError):
    """No Docker Engine answers, its socket may not be opened, or it refuses to make a container."""


class ImageMissing(SandboxError):
    """The sandbox image is not there, or was built from other sources than these."""


class SandboxDied(SandboxError):
    """The sandbox ended while a command ran: how far that command came is unknown."""


class SandboxBusy(SandboxError):
    """The sandbox is alive but can start nothing now: its process limit is used up."""


class CommandInterrupted(SandboxError):
    """What has this key had begun before and never ended: its effect is unknown, it was not run again."""

    def __init__(
        self,
        message: str = "This was under way when the program that ran it, or its sandbox, was ended. How far "
        "it came is unknown. It was not run again.",
        *,
        hint: str = "Look at what is there before you repeat anything.",
    ) -> None:
        super().__init__(message, hint=hint)


class CommandUnderWay(SandboxError):
    """What has this key runs at this moment, for another caller."""


class KeyReused(SandboxError):
    """This key belongs to another command: nothing was run."""


class RecordUnavailable(SandboxError):
    """Nobody could say afterwards whether this command had run, so it was not begun."""
