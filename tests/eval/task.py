"""What a task is, and what a run of it leaves for its check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

__all__ = ["Check", "Machine", "Outcome", "Task", "Unsolved"]


class Unsolved(Exception):
    """The outcome is not what the task asks for; the message says what is wrong."""


class Machine(Protocol):
    """Where the results of a run are: the sandbox, or plain Python for a reference solution."""

    def file(self, name: str) -> bytes:
        """The content of /results/<name>.

        Raises:
            Unsolved: there is no such file, or it cannot be read.
        """
        ...

    def names(self, folder: str) -> list[str]:
        """What is in the folder /results/<folder>, sorted; nothing where it is missing."""
        ...

    def program(self, name: str, *arguments: str, stdin: str = "") -> str:
        """What the Python program /results/<name> prints."""
        ...

    def pdf_text(self, name: str) -> str:
        """The text of /results/<name>."""
        ...


@dataclass(frozen=True)
class Outcome:
    """What a run leaves."""

    answer: str
    machine: Machine


Check = Callable[[Outcome], None]
"""Raises Unsolved where an outcome is wrong."""


@dataclass(frozen=True)
class Task:
    """One task, with what shows that its check can be trusted.

    `reference` is plain Python, and `wrong` changes it; what is printed is the answer. It sees the folders
    DATA and RESULTS, `rows(name)` (a CSV file as dicts), and what else `tests.eval.reference.play` gives it.
    """

    name: str
    text: str
    """What the agent is asked."""
    files: Callable[[], Mapping[str, bytes]]
    """Makes the files of /data: path in it -> content, the same every time."""
    check: Check
    reference: str
    """A right solution."""
    wrong: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """A mistake -> what to replace in the reference, and by what, to make it."""

    def mistaken(self, mistake: str) -> str:
        """The reference with one of the mistakes in it."""
        right, wrong = self.wrong[mistake]
        if right not in self.reference:
            raise ValueError(f"{self.name}, {mistake}: {right!r} is not in the reference")
        return self.reference.replace(right, wrong)
