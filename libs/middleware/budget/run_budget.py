"""The limits of one run and a meter for its use: model calls, seconds of work, tokens."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import RLock
from typing import Literal
from uuid import uuid4

from typing_extensions import TypedDict

__all__ = ["Budget", "BudgetStatus", "Meter", "Spent"]

BudgetStatus = Literal["budget_calls", "budget_seconds", "budget_tokens"]


@dataclass(frozen=True)
class Budget:
    """The limits of one run, from a person's message to the answer, including its subagents. All positive."""

    calls: int = 60
    """Model calls."""
    seconds: float = 1800
    """Seconds in which a model or a tool works. The time in which a person decides does not count."""
    tokens: int = 2_000_000
    """Tokens sent to and received from the model."""

    def explain(self, status: BudgetStatus, *, not_run: bool = False) -> str:
        """Return the last message of a run: which limit ended the run, and which setting raises the limit.

        `not_run`: the last reply has calls or code blocks, and none of them was run.
        """
        what, setting = {
            "budget_calls": (f"{self.calls:,} model calls", "RUN_MAX_CALLS"),
            "budget_seconds": (f"{self.seconds:,g} seconds of work", "RUN_MAX_SECONDS"),
            "budget_tokens": (f"{self.tokens:,} tokens", "RUN_MAX_TOKENS"),
        }[status]
        dropped = " Nothing of the last reply was run." if not_run else ""
        return (
            f"I stopped here: this run has used up its budget of {what}.{dropped} What was done so far "
            f"is kept. Send another message to go on with a new budget, or raise {setting}."
        )


class Spent(TypedDict):
    """The use of one agent, including its subagents, as saved in its state."""

    run: str
    calls: int
    seconds: float
    tokens: int
    ended: BudgetStatus | None


class Meter:
    """Counts the use of one agent and adds it to the agents above. Thread-safe.

    A run has one budget for all its agents: the budget of the outermost agent.
    """

    def __init__(self, budget: Budget, *, spent: Spent | None = None, parent: Meter | None = None) -> None:
        self.budget: Budget = parent.budget if parent else budget
        self.run = spent["run"] if spent else uuid4().hex
        self.ended: BudgetStatus | None = spent["ended"] if spent else None
        self._calls = spent["calls"] if spent else 0
        self._seconds = spent["seconds"] if spent else 0.0
        self._tokens = spent["tokens"] if spent else 0
        self._parent = parent
        self._root: Meter = parent._root if parent else self
        self._lock: RLock = parent._lock if parent else RLock()
        self._children: dict[str, Meter] = {}
        self._working = 0
        self._since = 0.0

    def child(self, spent: Spent) -> Meter:
        """Return the meter of a subagent, created at its first use.

        `spent` holds the use of a subagent that was interrupted in another process.
        """
        with self._lock:
            meter = self._children.get(spent["run"])
            if meter is None:
                meter = self._children[spent["run"]] = Meter(self.budget, spent=spent, parent=self)
                self._add(calls=spent["calls"], seconds=spent["seconds"], tokens=spent["tokens"])
            return meter

    def catch_up(self, spent: Spent) -> None:
        """Add the use that another process has counted in the meantime."""
        with self._lock:
            self._calls = max(self._calls, spent["calls"])
            self._seconds = max(self._seconds, spent["seconds"])
            self._tokens = max(self._tokens, spent["tokens"])
            self.ended = spent["ended"] or self.ended

    def take_call(self) -> BudgetStatus | None:
        """Count the next model call, or return the limit that forbids the call."""
        with self._lock:
            status = self.reached()
            if status is None:
                self._add(calls=1)
            return status

    def add_tokens(self, tokens: int) -> None:
        """Count tokens sent and received."""
        with self._lock:
            self._add(tokens=tokens)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Count the seconds of the context. Overlapping work counts once."""
        # Parents need no start: the tool call that runs this subagent keeps their clocks running.
        with self._lock:
            if self._working == 0:
                self._since = time.monotonic()
            self._working += 1
        try:
            yield
        finally:
            with self._lock:
                self._working -= 1
                if self._working == 0:
                    self._seconds += time.monotonic() - self._since

    def reached(self) -> BudgetStatus | None:
        """Return the first limit that the run has used up, or None."""
        root = self._root
        with self._lock:
            if root._calls >= root.budget.calls:
                return "budget_calls"
            if root.remaining() <= 0:
                return "budget_seconds"
            return "budget_tokens" if root._tokens >= root.budget.tokens else None

    def remaining(self) -> float:
        """Return the seconds of work that the run has left; 0 or less if none."""
        return self._root.budget.seconds - self._root._elapsed()

    def spent(self) -> Spent:
        """Return the use of this agent so far."""
        with self._lock:
            seconds = round(self._elapsed(), 3)
            return Spent(
                run=self.run, calls=self._calls, seconds=seconds, tokens=self._tokens, ended=self.ended
            )

    def _add(self, *, calls: int = 0, seconds: float = 0, tokens: int = 0) -> None:
        self._calls += calls
        self._seconds += seconds
        self._tokens += tokens
        if self._parent is not None:
            self._parent._add(calls=calls, seconds=seconds, tokens=tokens)

    def _elapsed(self) -> float:
        with self._lock:
            return self._seconds + (time.monotonic() - self._since if self._working else 0.0)
