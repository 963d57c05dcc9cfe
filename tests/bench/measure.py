"""How figures are taken: interleaved, after a warm-up, as medians with their spread."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["Figure", "interleaved"]


@dataclass
class Figure:
    """One line of the table: what was measured beside what, and the limit it is held against."""

    name: str
    unit: str
    values: dict[str, float]
    """Median by contestant; `sandbox` is ours."""
    limit: str
    holds: bool
    spread: dict[str, tuple[float, float]] = field(default_factory=dict)
    """5th and 95th percentile by contestant."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class Times:
    """Seconds each contestant took, in the order of the rounds."""

    samples: dict[str, list[float]]

    def median(self, name: str) -> float:
        return statistics.median(self.samples[name])

    def percentile(self, name: str, percent: float) -> float:
        ordered = sorted(self.samples[name])
        return ordered[min(len(ordered) - 1, round(percent / 100 * (len(ordered) - 1)))]

    def figure(self, name: str, limit: str, holds: bool, *, unit: str = "ms") -> Figure:
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
        )


def interleaved(
    contestants: dict[str, Callable[[], object]], *, rounds: int = 100, warm_up: int = 10
) -> Times:
    """Time each contestant once a round, so that what slows the machine slows them alike."""
    samples: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(warm_up + rounds):
        for name, contestant in contestants.items():
            begun = time.perf_counter()
            contestant()
            if number >= warm_up:
                samples[name].append(time.perf_counter() - begun)
    return Times(samples)
