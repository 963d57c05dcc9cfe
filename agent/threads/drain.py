"""Ends the runs of this process between two steps, so that the next process can continue them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from langgraph.runtime import RunControl

__all__ = ["DRAIN", "Drain"]


class Drain:
    """The runs that are at work in this process. Thread-safe, because a run may use an event loop of its own.

    After `request`, LangGraph raises GraphDrained in each run when its current step is saved, and in a new
    run before its first step.
    """

    def __init__(self) -> None:
        self._requested = False
        self._controls: set[RunControl] = set()

    @property
    def requested(self) -> bool:
        """Whether runs end after their current step."""
        return self._requested

    @property
    def at_work(self) -> int:
        """Number of runs whose current step has not ended."""
        return len(self._controls)

    def request(self) -> None:
        """End each run after its current step."""
        self._requested = True
        for control in tuple(self._controls):
            control.request_drain()

    @contextmanager
    def run(self) -> Iterator[RunControl]:
        """Count a run inside the block as at work; yield its control, for LangGraph."""
        control = RunControl()
        self._controls.add(control)
        if self._requested:  # read after the run is added, so that `request` cannot miss the run
            control.request_drain()
        try:
            yield control
        finally:
            self._controls.discard(control)


DRAIN = Drain()
"""The runs of this process."""
