"""Errors of a sandbox: one class for each cause, each with a hint what to do next.

A sandbox never raises for what a command does: a failing, killed or timed-out command is a `RunResult`. A
sandbox raises one of these errors if the command could not run, or if its end is unknown.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import Self

__all__ = [
    "ClusterFull",
    "ClusterUnavailable",
    "CommandInterrupted",
    "CommandStopped",
    "CommandUnderWay",
    "DockerUnavailable",
    "ImageMissing",
    "KeyReused",
    "RecordUnavailable",
    "SandboxBusy",
    "SandboxDied",
    "SandboxError",
    "WorkspaceMissing",
    "program",
]


def program() -> str:
    """Return this installation's command, for hints that a person can paste.

    `code-agent` if that is on PATH. Otherwise the path beside this interpreter, relative if it is below the
    working folder.
    """
    if shutil.which("code-agent"):
        return "code-agent"
    beside = Path(sys.executable).with_name("code-agent")
    if not beside.is_file():
        return "code-agent"
    return str(beside.relative_to(Path.cwd()) if beside.is_relative_to(Path.cwd()) else beside)


class SandboxError(Exception):
    """The sandbox failed.

    `str(error)` says what happened. `hint` says what to do, if possible as the exact command.
    """

    hint: str

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint

    def again(self) -> Self:
        """Return a copy without traceback, to raise it again. A traceback would keep its frames alive."""
        return type(self)(str(self), hint=self.hint)


class DockerUnavailable(SandboxError):
    """No Docker Engine answers, its socket may not be opened, or it refuses to make a container."""


class ImageMissing(SandboxError):
    """The sandbox image is missing, or stale: it was built from other source files."""


class SandboxDied(SandboxError):
    """The sandbox ended while a command ran. The effect of the command is unknown."""

    output = ""
    """Both outputs of the command or block as far as they had come, shortened. Of a long output, only the
    beginning comes before the command ends. A line says so."""


class SandboxBusy(SandboxError):
    """The sandbox is alive but cannot start the command: its process limit is used up."""


class ClusterUnavailable(SandboxError):
    """No Ray cluster answers, or a node of it does not answer."""


class ClusterFull(SandboxError):
    """No node of the cluster had room for the sandbox in time."""


class WorkspaceMissing(SandboxError):
    """The workspace folder was moved or removed on the host while the sandbox ran."""

    @classmethod
    def at(cls, root: Path) -> Self:
        """Return the error for a workspace path without a folder."""
        path = shlex.quote(str(root))
        remove = f"rm {path}; " if root.is_symlink() or root.exists() else ""
        return cls(
            f"The workspace folder {root} was moved or removed on this machine while the sandbox ran.",
            hint=f"Put it back, or make it: {remove}mkdir -p {path}. Then the next command works.",
        )

    @classmethod
    def meanwhile(cls) -> Self:
        """Return the error of a file operation during which the folder was removed."""
        return cls(
            "The file operation failed: the workspace folder was removed on this machine meanwhile.",
            hint="Put the folder back, or make it. Then try again.",
        )


class CommandInterrupted(SandboxError):
    """The command with this key began before and has no known end. It was not run again."""

    def __init__(
        self,
        message: str = "The program or the sandbox ended while this call was running. Its effect is unknown. "
        "It was not run again.",
        *,
        hint: str = "Look at what is there before you repeat anything.",
    ) -> None:
        super().__init__(message, hint=hint)


class CommandStopped(CommandInterrupted):
    """The caller of the command has cancelled it.

    Nothing is known of the reason: a person may have stopped the run, or another part of the run has failed.
    """


class CommandUnderWay(SandboxError):
    """The command with this key is running now, for another caller."""


class KeyReused(SandboxError):
    """The key belongs to another command. Nothing was run."""


class RecordUnavailable(SandboxError):
    """The command log or the database of threads cannot be used, so the command did not begin."""
