"""Measure figures: interleaved, after a warm-up, as medians with their spread."""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

__all__ = ["REPORT", "Figure", "Times", "interleaved", "memory_grown", "timed"]

REPORT = Path(__file__).parents[1] / "artifacts" / "bench.json"
"""The figures of the last run."""


@dataclass
class Figure:
    """One line of the table: a measured value, the values to compare with, and the limit."""

    name: str
    """Stable name of the figure."""
    unit: str
    values: dict[str, float]
    """Median by contestant; `sandbox` is ours."""
    limit: str
    holds: bool
    spread: dict[str, tuple[float, float]] = field(default_factory=dict)
    """5th and 95th percentile by contestant."""
    note: str = ""
    """Conclusion from the values."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class Times:
    """Seconds of each contestant, in the order of the rounds."""

    samples: dict[str, list[float]]

    def median(self, name: str) -> float:
        return statistics.median(self.samples[name])

    def percentile(self, name: str, percent: float) -> float:
        ordered = sorted(self.samples[name])
        return ordered[min(len(ordered) - 1, round(percent / 100 * (len(ordered) - 1)))]

    def figure(self, name: str, limit: str, holds: bool, *, unit: str = "ms", note: str = "") -> Figure:
        scale = {"ms": 1000.0, "s": 1.0}[unit]
        return Figure(
            name,
            unit,
            {key: self.median(key) * scale for key in self.samples},
            limit,
            holds,
            {
                key: (self.percentile(key, 5) * scale, self.percentile(key, 95) * scale)
                for key in self.samples
            },
            note,
        )


REST = 0.02
MOST_ROUNDS = int(os.environ.get("BENCH_ROUNDS", "0"))
"""Fewer rounds, for a quick check; such figures are never quoted. 0: as many as each figure needs."""


def timed(contestant: Callable[[], object]) -> float:
    """Return the seconds of one call."""
    begun = time.perf_counter()
    contestant()
    return time.perf_counter() - begun


def interleaved(
    contestants: Mapping[str, Callable[[], object]],
    *,
    reporting: Mapping[str, Callable[[], float]] = {},
    rounds: int = 100,
    warm_up: int = 10,
) -> Times:
    """Time each contestant once a round, so that a busy machine slows all of them equally.

    The order within a round is random. Peers have rounds of their own afterwards, in the same run, because
    the Engine cleans up after the command of a peer for a while, which would slow down the others. Each call
    of a peer begins REST seconds after the previous one and follows an untimed call.

    Args:
        contestants: Functions that are timed here.
        reporting: Functions that run in another process and return their seconds.
        rounds: Number of counted rounds. BENCH_ROUNDS reduces it.
    """
    if MOST_ROUNDS:
        rounds, warm_up = min(rounds, MOST_ROUNDS), min(warm_up, 1)
    samples: dict[str, list[float]] = {name: [] for name in (*contestants, *reporting)}
    timed_here = {name: partial(timed, contestant) for name, contestant in contestants.items()}
    for calls in (timed_here, reporting):
        order = list(calls)
        for number in range(warm_up + rounds):
            random.shuffle(order)
            for name in order:
                if calls is reporting:
                    time.sleep(REST)
                    calls[name]()
                seconds = calls[name]()
                if number >= warm_up:
                    samples[name].append(seconds)
    return Times(samples)


def memory_grown(does: Callable[[], object]) -> float:
    """Return the growth of this process's peak resident memory during a call, in MB."""
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak, proc(5)
    before = _status("VmRSS")
    does()
    return (_status("VmHWM") - before) / 1024


def _status(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key + ":"))
