"""Many threads, each with its own sandbox: memory, start, and whether all threads are served."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from docker import DockerClient

from libs.backends.docker import DockerExecutionBackend
from libs.sandbox.docker.engine import connect
from libs.sandbox.docker.strays import NAME_LABEL
from tests.bench.bench_sandboxes import container_of, image, in_thread, memory_of, runtime
from tests.bench.measure import Figure, timed

NAME = "bench-crowd"
SIZES = (1, 10, 50, 200)
IDLE = 25.0
"""Seconds until an idle sandbox is stopped: longer than the starts between two turns of all threads."""
TURN = 10
"""Sandboxes that start between two turns of all threads."""
_TURN = "echo $((1 + $(cat turns 2>/dev/null || echo 0))) > turns; cat turns"


class _Crowd:
    """Threads 0, 1, 2 … and the number of turns of each."""

    def __init__(self, backend: DockerExecutionBackend) -> None:
        self.backend = backend
        self.turns: list[int] = []

    def take(self, thread: int) -> float:
        """Count one turn in the thread's own file; return the seconds. A lost or misdirected turn fails."""
        said: list[str] = []
        seconds = in_thread(
            str(thread), lambda: timed(lambda: said.append(self.backend.execute(_TURN).output))
        )
        self.turns[thread] += 1
        assert said == [f"{self.turns[thread]}\n"], said
        return seconds

    def grow(self, size: int) -> list[float]:
        """Add threads up to `size`; return the seconds of the first turn of each."""
        taken = []
        while len(self.turns) < size:
            self.turns.append(0)
            taken.append(self.take(len(self.turns) - 1))
            if len(self.turns) % TURN == 0:
                self.all_at_once(len(self.turns))
        return taken

    def all_at_once(self, callers: int) -> list[float]:
        """Take a turn in every thread, `callers` at the same time."""
        with ThreadPoolExecutor(callers) as threads:
            return list(threads.map(self.take, range(len(self.turns))))

    def command(self) -> float:
        """Return the seconds of a warm command in a random thread."""
        thread = str(random.randrange(len(self.turns)))
        return in_thread(thread, lambda: timed(lambda: self.backend.execute("echo hi")))


def figures(root: Path) -> Iterator[Figure]:
    client = connect()
    with DockerExecutionBackend(
        root, name=NAME, image=image(), runtime=runtime(), scope="thread", warm=0, idle_seconds=IDLE
    ) as backend:
        crowd = _Crowd(backend)
        for size in SIZES:
            yield _cost(crowd, size, client)
        size = len(crowd.turns)
        took = timed(lambda: crowd.all_at_once(size))
        yield Figure(f"{size} threads ask at once", "s", {"sandbox": took}, "all served", True)
        deadline = time.monotonic() + 4 * IDLE
        while left := len(client.api.containers(filters={"label": f"{NAME_LABEL}={NAME}"})):
            if time.monotonic() > deadline:
                break
            time.sleep(0.5)
        taken = crowd.all_at_once(4)
        yield Figure(
            f"{size} idle threads stopped, then asked again",
            "ms",
            {"sandbox": statistics.median(taken) * 1000},
            "all stopped, all served, nothing of theirs lost",
            left == 0,
            {"sandbox": (min(taken) * 1000, max(taken) * 1000)},
            f"{size - left} stopped; four asked at a time",
        )
    client.close()


def _cost(crowd: _Crowd, size: int, client: DockerClient) -> Figure:
    started = crowd.grow(size)
    commands = [crowd.command() for _ in range(100)]
    crowd.all_at_once(size)
    names = [in_thread(str(thread), lambda: container_of(crowd.backend)) for thread in range(size)]
    # One by one would take so long that the last sandbox is stopped.
    with ThreadPoolExecutor(20) as threads:
        each = statistics.median(threads.map(lambda name: memory_of(client, name), names))
    return Figure(
        f"{size} sandbox" + "es" * (size > 1),
        "",
        {
            "memory of each, MB": each,
            "start, ms": statistics.median(started) * 1000,
            "command, ms": statistics.median(commands) * 1000,
        },
        "at most 40 MB each",
        each <= 40,
    )
