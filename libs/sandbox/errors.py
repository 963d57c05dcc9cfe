"""What can go wrong below `execute`: one class per cause, each with what to do next.

A sandbox never raises for what a command does: a failing, killed or timed-out command is a
`RunResult`. It raises one of these when the command could not be run at all, or when nobody can say
how it ended.
"""

from __future__ import annotations

__all__ = ["DockerUnavailable", "ImageMissing", "SandboxBusy", "SandboxDied", "SandboxError"]


class SandboxError(Exception):
    """The sandbox could not do its part.

    `str(error)` says what happened; `hint` says what mends it, where possible as the exact command.
    """

    hint: str

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class DockerUnavailable(SandboxError):
    """No Docker Engine answers, its socket may not be opened, or it refuses to make a container."""


class ImageMissing(SandboxError):
    """The sandbox image is not there, or was built from other sources than these."""


class SandboxDied(SandboxError):
    """The sandbox ended while a command ran: how far that command came is unknown."""


class SandboxBusy(SandboxError):
    """The sandbox is alive but can start nothing now: its process limit is used up."""
