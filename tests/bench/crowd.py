"""Many threads, each with a sandbox of its own: what they cost, and whether all are served."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
from docker import DockerClient

from libs.backends.docker import DockerExecutionBackend
from libs.sandbox.engine import connect
from libs.sandbox.strays import NAME_LABEL
from tests.bench.measure import Figure, timed
from tests.bench.sandboxes import container_of, image, in_thread, memory_of

NAME = "bench-crowd"
SIZES = (1, 10, 50, 200)
IDLE = 25.0
"""Seconds after which a sandbox is stopped: longer than it takes to start those between two turns of all."""
TURN = 10
"""Sandboxes that are started between two turns of all."""
_TURN = "echo $((1 + $(cat turns 2>/dev/null || echo 0))) > turns; cat turns"


class _Crowd:
    """Threads 0, 1, 2 … and how many turns each has had."""

    def __init__(self, backend: DockerExecutionBackend) -> None:
        self.backend = backend
        self.turns: list[int] = []

    def take(self, thread: int) -> float:
        """One turn, which counts in a file of the thread's own; seconds that it took."""
        said: list[str] = []
        seconds = in_thread(str(thread), lambda: timed(lambda: said.append(self._execute(_TURN))))
        self.turns[thread] += 1
        assert said == [f"{self.turns[thread]}\n"], said
        return seconds

    def grow(self, size: int) -> list[float]:
        """More threads, until there are `size`; seconds that the first turn of each took."""
        taken = []
        while len(self.turns) < size:
            self.turns.append(0)
            taken.append(self.take(len(self.turns) - 1))
            if len(self.turns) % TURN == 0:
                self.all_at_once()
        return taken

    def all_at_once(self) -> None:
        """A turn for each, all asked for in the same moment."""
        with ThreadPoolExecutor(len(self.turns)) as threads:
            list(threads.map(self.take, range(len(self.turns))))

    def command(self) -> float:
        """Seconds of one warm command of any of them."""
        thread = str(random.randrange(len(self.turns)))
        return in_thread(thread, lambda: timed(lambda: self._execute("echo hi")))

    def _execute(self, command: str) -> str:
        done = self.backend.execute(command)
        assert done.exit_code == 0, done.output
        return done.output


def figures(root: Path) -> Iterator[Figure]:
    client = connect()
    free = psutil.virtual_memory().available
    with DockerExecutionBackend(
        root, name=NAME, image=image(), scope="thread", warm=0, idle_seconds=IDLE
    ) as backend:
        crowd = _Crowd(backend)
        for size in SIZES:
            yield _cost(crowd, size, client, free)
        yield _served(crowd)
        yield _restarted(crowd, client)
    client.close()


def _cost(crowd: _Crowd, size: int, client: DockerClient, free: int) -> Figure:
    started = crowd.grow(size)
    commands = [crowd.command() for _ in range(100)]
    crowd.all_at_once()
    on_machine = (free - psutil.virtual_memory().available) / size / 1e6
    each = statistics.median(_memory(crowd, size, client))
    return Figure(
        f"{size} sandbox" + "es" * (size > 1),
        "",
        {
            "memory of each, MB": each,
            "of the whole machine for each, MB": on_machine,
            "start, ms": statistics.median(started) * 1000,
            "command, ms": statistics.median(commands) * 1000,
        },
        "at most 40 MB each",
        each <= 40,
    )


def _memory(crowd: _Crowd, size: int, client: DockerClient) -> list[float]:
    """Of each, in MB. The Engine may take a second for one: asked one by one, the last would be stopped."""
    names = [in_thread(str(thread), lambda: container_of(crowd.backend)) for thread in range(size)]
    with ThreadPoolExecutor(20) as threads:
        return list(threads.map(lambda name: memory_of(client, name), names))


def _served(crowd: _Crowd) -> Figure:
    took = timed(crowd.all_at_once)
    size = len(crowd.turns)
    # Each counts its own turns in its own file: a turn that was lost, or went elsewhere, has failed above.
    return Figure(f"{size} threads ask at once", "s", {"sandbox": took}, "all served", True)


def _restarted(crowd: _Crowd, client: DockerClient) -> Figure:
    """All rest until they are stopped; then each takes another turn, and finds what it left."""
    size = len(crowd.turns)
    deadline = time.monotonic() + 4 * IDLE
    while left := len(client.api.containers(filters={"label": f"{NAME_LABEL}={NAME}"})):
        if time.monotonic() > deadline:
            break
        time.sleep(0.5)
    with ThreadPoolExecutor(4) as threads:
        taken = list(threads.map(crowd.take, range(size)))
    return Figure(
        f"{size} idle threads stopped, then asked again",
        "ms",
        {"sandbox": statistics.median(taken) * 1000},
        "all stopped, all served, nothing of theirs lost",
        left == 0,
        {"sandbox": (min(taken) * 1000, max(taken) * 1000)},
        f"{size - left} stopped; four asked at a time",
    )
