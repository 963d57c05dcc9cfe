"""Ends the runs of this process between two steps, so that the next process can continue them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from langgraph.runtime import RunControl

__all__ = ["DRAIN", "CutOff", "Drain"]

_Task = asyncio.Task[Any] | None


class CutOff(Exception):
    """The process ends, and a step of the run has lasted too long."""


class Drain:
    """The runs that are at work in this process. Thread-safe, because a run may use an event loop of its own.

    After `request`, LangGraph raises GraphDrained in each run when its current step is saved, and in a new
    run before its first step.
    """

    def __init__(self) -> None:
        self._requested = False
        self._controls: dict[RunControl, _Task] = {}
        self._answering: set[_Task] = set()
        self._cut: set[_Task] = set()

    @property
    def requested(self) -> bool:
        """Whether runs end after their current step."""
        return self._requested

    @property
    def at_work(self) -> int:
        """Number of runs whose current step has not ended."""
        return len(self._controls)

    @property
    def answering(self) -> int:
        """Number of `answer` blocks that have not ended."""
        return len(self._answering)

    def request(self) -> None:
        """End each run after its current step."""
        self._requested = True
        for control in tuple(self._controls):
            control.request_drain()

    def cut(self) -> None:
        """Stop the runs at work inside `answer`. To be called on their event loop."""
        for task in self._answering.intersection(self._controls.values()):
            if task is not None and not task.cancelling():
                self._cut.add(task)
                task.cancel()

    @contextmanager
    def answer(self) -> Iterator[None]:
        """Mark the current task: a client waits for its answer, and no other process carries out its run."""
        task = asyncio.current_task()
        self._answering.add(task)
        try:
            yield
        finally:
            self._answering.discard(task)
            self._cut.discard(task)

    @contextmanager
    def run(self) -> Iterator[RunControl]:
        """Count a run inside the block as at work; yield its control, for LangGraph.

        Raises:
            CutOff: `cut` has stopped the run.
        """
        task, control = asyncio.current_task(), RunControl()
        self._controls[control] = task
        if self._requested:  # read after the run is added, so that `request` cannot miss the run
            control.request_drain()
        try:
            yield control
        except asyncio.CancelledError:
            if task is None or task not in self._cut:
                raise
            task.uncancel()
            raise CutOff from None
        finally:
            del self._controls[control]


DRAIN = Drain()
"""The runs of this process."""
