"""What a program and a container hold, reading after reading, and whether it grows."""

from __future__ import annotations

import gc
import statistics
import sys
import threading
import time
from array import array
from dataclasses import dataclass, field
from typing import Any

import docker
import psutil

__all__ = ["LIMITS", "Series", "read"]

_MB = 2**20
_WARM_UP = 45.0
"""Seconds in which caches fill and pools reach their size; at most half of the run. They do not count."""

LIMITS = {
    "memory of this process, MB": 16.0,
    "blocks of memory in this process, thousands": 2.0,
    "threads of this process": 6.0,
    "descriptors of this process": 12.0,
    "memory of the container, MB": 40.0,
    "processes in the container": 20.0,
}
"""What each may grow over the run, whatever its length: a leak of thousands of calls is larger than that.

The memory of a process moves by megabytes when nothing leaks. Blocks, Python's own count of what it holds,
move by hundreds: one object that every fifth call leaves behind is found in two minutes, some 10,000 calls.
"""


def read(client: docker.DockerClient, container: str) -> dict[str, float]:
    """One reading: this process, and a container without the files that the kernel keeps in memory for it."""
    gc.collect()
    this = psutil.Process()
    found: dict[str, Any] = client.api.stats(container, stream=False, one_shot=True)
    memory = found["memory_stats"]
    details = memory["stats"]
    # cgroup v1 with its hierarchy, or v2.
    cached = [details.get(f"total_{kind}", details.get(kind, 0)) for kind in ("active_file", "inactive_file")]
    values = (
        this.memory_info().rss / _MB,
        sys.getallocatedblocks() / 1000,
        threading.active_count(),
        this.num_fds(),
        (memory["usage"] - sum(cached)) / _MB,
        found["pids_stats"]["current"],
    )
    return dict(zip(LIMITS, values, strict=True))


@dataclass
class Series:
    """Readings of one run."""

    begun: float = field(default_factory=time.monotonic)
    # Arrays: lists of numbers would be seen growing.
    times: array[float] = field(default_factory=lambda: array("d"))
    readings: dict[str, array[float]] = field(default_factory=lambda: {name: array("d") for name in LIMITS})

    def add(self, reading: dict[str, float]) -> None:
        self.times.append(time.monotonic() - self.begun)
        for name, value in reading.items():
            self.readings[name].append(value)

    def settled(self, name: str) -> list[tuple[float, float]]:
        """Seconds and value of each reading after the warm-up."""
        first = min(_WARM_UP, self.times[-1] / 2)
        pairs = zip(self.times, self.readings[name], strict=True)
        return [(at, value) for at, value in pairs if at >= first]

    def growth(self, name: str) -> float:
        """By how much the straight line through the readings rises from the warm-up to the end."""
        times, values = zip(*self.settled(name), strict=True)
        slope: float = statistics.linear_regression(times, values).slope
        return slope * float(times[-1] - times[0])
