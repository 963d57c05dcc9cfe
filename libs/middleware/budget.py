"""What one run may use, and what it has used: model calls, seconds of work, tokens."""

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
    """The limits of one run, from a person's message to the answer, its subagents included.

    Raises:
        ValueError: a limit is not positive.
    """

    calls: int = 60
    """Model calls."""
    seconds: float = 1800
    """Seconds in which a model or a tool is at work. A person's time to approve does not count."""
    tokens: int = 2_000_000
    """Tokens sent to and received from the model."""

    def __post_init__(self) -> None:
        for name in ("calls", "seconds", "tokens"):
            if not getattr(self, name) > 0:
                raise ValueError(f"The budget's {name} must be more than 0, not {getattr(self, name)}.")

    def explain(self, status: BudgetStatus) -> str:
        """Return the sentence that ends a run: which budget, its number, the setting that raises it."""
        what, setting = {
            "budget_calls": (f"{self.calls:,} model calls", "RUN_MAX_CALLS"),
            "budget_seconds": (f"{self.seconds:,g} seconds of work", "RUN_MAX_SECONDS"),
            "budget_tokens": (f"{self.tokens:,} tokens", "RUN_MAX_TOKENS"),
        }[status]
        return (
            f"I stopped here: this run has used up its budget of {what}. What was done so far is kept. "
            f"Send another message to go on with a new budget, or raise {setting}."
        )


class Spent(TypedDict):
    """What one agent of a run has used, its finished subagents included, as kept in its state."""

    run: str
    calls: int
    seconds: float
    tokens: int
    ended: BudgetStatus | None


class Meter:
    """Counts what one agent of a run uses, and adds it to the agents above it. Thread-safe.

    Only the budget of the outermost agent limits: a run has one budget however many subagents it starts.
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
        """Return the meter of a subagent, made on first use.

        A subagent that was interrupted in another process brings along what it had used there.
        """
        with self._lock:
            meter = self._children.get(spent["run"])
            if meter is None:
                meter = self._children[spent["run"]] = Meter(self.budget, spent=spent, parent=self)
                self._add(spent["calls"], spent["seconds"], spent["tokens"])
            return meter

    def catch_up(self, spent: Spent) -> None:
        """Take over what another process has counted since this meter last saw the run."""
        with self._lock:
            self._calls = max(self._calls, spent["calls"])
            self._seconds = max(self._seconds, spent["seconds"])
            self._tokens = max(self._tokens, spent["tokens"])
            self.ended = spent["ended"] or self.ended

    def take_call(self) -> BudgetStatus | None:
        """Count one model call about to be made, or return the limit that forbids it."""
        with self._lock:
            status = self.reached()
            if status is None:
                self._add(1, 0.0, 0)
            return status

    def add_tokens(self, tokens: int) -> None:
        """Count tokens sent and received."""
        with self._lock:
            self._add(0, 0.0, tokens)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Let the clock run. Overlapping work counts once."""
        self._start()
        try:
            yield
        finally:
            self._stop()

    def reached(self) -> BudgetStatus | None:
        """The first limit that the run has used up, if any."""
        root = self._root
        with self._lock:
            if root._calls >= root.budget.calls:
                return "budget_calls"
            if root.remaining() <= 0:
                return "budget_seconds"
            if root._tokens >= root.budget.tokens:
                return "budget_tokens"
            return None

    def remaining(self) -> float:
        """Seconds of work that the run has left; 0 or less when it has none."""
        return self._root.budget.seconds - self._root._elapsed()

    def spent(self) -> Spent:
        """What this agent has used so far."""
        with self._lock:
            return Spent(
                run=self.run,
                calls=self._calls,
                seconds=round(self._elapsed(), 3),
                tokens=self._tokens,
                ended=self.ended,
            )

    def _add(self, calls: int, seconds: float, tokens: int) -> None:
        self._calls += calls
        self._seconds += seconds
        self._tokens += tokens
        if self._parent is not None:
            self._parent._add(calls, seconds, tokens)

    def _elapsed(self) -> float:
        with self._lock:
            return self._seconds + (time.monotonic() - self._since if self._working else 0.0)

    def _start(self) -> None:
        # Agents above need no start: the tool call that runs this subagent keeps their clocks going.
        with self._lock:
            if self._working == 0:
                self._since = time.monotonic()
            self._working += 1

    def _stop(self) -> None:
        with self._lock:
            self._working -= 1
            if self._working == 0:
                self._seconds += time.monotonic() - self._since
