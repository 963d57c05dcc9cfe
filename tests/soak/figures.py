"""Read the resources of this process and of a container, and compute their growth."""

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
"""Allowed growth over a run of any length. A leak in thousands of calls is larger.

The memory of a process varies by megabytes without a leak. Python's count of blocks varies by hundreds: a
leak of one object in five calls shows in two minutes (about 10,000 calls).
"""


def read(client: docker.DockerClient, container: str) -> dict[str, float]:
    """Take one reading of this process and of a container, without the container's page cache."""
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
    # Arrays, because growing lists of numbers would count as growth.
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
        """Return the rise of the regression line from the warm-up to the end."""
        times, values = zip(*self.settled(name), strict=True)
        slope: float = statistics.linear_regression(times, values).slope
        return slope * float(times[-1] - times[0])
