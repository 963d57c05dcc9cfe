"""A task, and the outcome of a run that the task's check gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.eval.machine import Machine, Unsolved

__all__ = ["Check", "Outcome", "Task", "Unsolved"]


@dataclass(frozen=True)
class Outcome:
    """The answer and the results of a run."""

    answer: str
    machine: Machine


Check = Callable[[Outcome], None]
"""Raises Unsolved if an outcome is wrong."""


@dataclass(frozen=True)
class Task:
    """One task.

    `reference` is plain Python; its printed text is the answer. It sees the folders DATA and RESULTS,
    `rows(name)` (a CSV file as dicts), and the other names that `tests.eval.reference.play` passes in.
    """

    name: str
    text: str
    """The task as the agent reads it."""
    check: Check
    reference: str = ""
    """A right solution, for checks of files or programs."""
    files: Callable[[], Mapping[str, bytes]] = dict
    """Returns the files of /data by path, always the same."""
    mistake: tuple[str, str] = ("", "")
    """A text of the reference and its replacement, which the check must refuse."""
