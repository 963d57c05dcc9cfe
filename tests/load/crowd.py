"""Threads and tasks that work on sandboxes at once, and can be told to pause."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from libs.sandbox import FileFailed, SandboxError
from libs.sandbox.base import ChannelSandbox
from tests.load.ledger import Ledger, half_files
from tests.load.steps import Step, Steps

__all__ = ["Crowd", "Place"]


@dataclass(frozen=True)
class Place:
    """A sandbox and its disk."""

    sandbox: ChannelSandbox
    root: Path


@dataclass
class _Worker:
    name: str
    place: Place
    steps: Steps
    doing: str = ""
    since: float = field(default_factory=time.monotonic)


class Crowd:
    """Works on each place with threads and tasks, from `go` to `pause`, until it is closed.

    Args:
        places: name -> where.
        threads: in each place, each waiting for its own calls.
        tasks: in each place, all on one event loop.
        harsh: see Steps. A typed error is accepted then; nothing else that is raised ever is.
        tell: see Ledger; it is told the name of the worker too.
    """

    def __init__(
        self,
        places: Mapping[str, Place],
        *,
        seed: str,
        threads: int = 2,
        tasks: int = 2,
        harsh: bool = True,
        largest: int = 3_000_000,
        tell: Callable[[str, str], None] = lambda _, __: None,
    ) -> None:
        self.faults: list[str] = []
        self.done = 0
        self.refused = 0
        """Calls that ended with a typed error."""
        self.longest = 0.0
        """Seconds that the longest call took."""
        self._harsh = harsh
        self._open = threading.Event()
        self._closing = False
        self._lock = threading.Lock()
        self._working = 0

        def worker(name: str, place: Place) -> _Worker:
            ledger = Ledger(lambda line: tell(name, line))
            return _Worker(name, place, Steps(name, seed, largest=largest, harsh=harsh, ledger=ledger))

        some = [worker(f"{at}-thread{n}", place) for at, place in places.items() for n in range(threads)]
        others = [worker(f"{at}-task{n}", place) for at, place in places.items() for n in range(tasks)]
        self._workers = some + others
        self._threads = [threading.Thread(target=self._work, args=(each,), name="load") for each in some]
        self._threads.append(
            threading.Thread(target=lambda: asyncio.run(self._all(others)), name="load-loop")
        )
        for thread in self._threads:
            thread.start()

    def go(self) -> None:
        self._open.set()

    def pause(self, seconds: float = 60) -> None:
        """Wait until every call under way has ended.

        Raises:
            AssertionError: one has not, `seconds` later.
        """
        self._open.clear()
        deadline = time.monotonic() + seconds
        while self._working:
            if time.monotonic() > deadline:
                now = time.monotonic()
                hang = [
                    f"{each.name}: {each.doing}, {now - each.since:.0f} s"
                    for each in self._workers
                    if each.doing
                ]
                raise AssertionError("these do not end: " + "; ".join(hang))
            time.sleep(0.01)

    def check(self) -> None:
        """Compare results and disk with what they must be. Only while it pauses."""
        faults, self.faults = self.faults, []
        for each in self._workers:
            faults += [f"{each.name}: {fault}" for fault in each.steps.ledger.faults(each.place.root)]
        assert not faults, "\n".join(faults[:20])

    def half_files(self, *, breaks: int) -> list[str]:
        """See `tests.load.ledger.half_files`. Only while it pauses."""
        ledgers = [each.steps.ledger for each in self._workers]
        roots = {each.place.root for each in self._workers}
        return [fault for root in roots for fault in half_files(ledgers, root, breaks=breaks)]

    def close(self) -> None:
        self._closing = True
        self._open.set()
        for thread in self._threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in self._threads)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the workers

    def _begin(self, worker: _Worker) -> Step | None:
        """Its next step, or None where it is to wait."""
        with self._lock:
            if self._closing or not self._open.is_set():
                return None
            self._working += 1
        step = worker.steps.next()
        worker.doing, worker.since = f"{step.method} {str(step.arguments)[:100]}", time.monotonic()
        return step

    def _end(self, worker: _Worker, step: Step, result: Any, error: Exception | None) -> None:
        wrong = None if error else step.wrong(result)
        if error and not (self._harsh and is_typed(error)):
            wrong = f"raised {error!r}"
        with self._lock:
            self.done += 1
            self.refused += error is not None
            self.longest = max(self.longest, time.monotonic() - worker.since)
            if wrong:
                self.faults.append(f"{worker.name}: {worker.doing}: {wrong}")
            worker.doing = ""
            self._working -= 1

    def _work(self, worker: _Worker) -> None:
        while not self._closing:
            step = self._begin(worker)
            if step is None:
                self._open.wait(0.05)
                continue
            try:
                result = getattr(worker.place.sandbox, step.method)(**step.arguments)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is judged
                self._end(worker, step, None, error)
                time.sleep(0.01)
            else:
                self._end(worker, step, result, None)

    async def _all(self, workers: list[_Worker]) -> None:
        await asyncio.gather(*(self._awork(worker) for worker in workers))

    async def _awork(self, worker: _Worker) -> None:
        while not self._closing:
            step = self._begin(worker)
            if step is None:
                await asyncio.sleep(0.02)
                continue
            try:
                call = getattr(worker.place.sandbox, f"a{step.method}")(**step.arguments)
                result = await asyncio.wait_for(call, step.cancel_after)
            except TimeoutError as error:
                if step.cancel_after is None:
                    self._end(worker, step, None, error)
                else:
                    step.wrong = lambda _: None
                    self._end(worker, step, None, None)
            except Exception as error:  # noqa: BLE001
                self._end(worker, step, None, error)
            else:
                self._end(worker, step, result, None)
            await asyncio.sleep(0.001)


def is_typed(error: BaseException | None) -> bool:
    """Whether the contract names it (libs/sandbox/protocol.py)."""
    return isinstance(error, SandboxError | FileFailed) or (
        isinstance(error, OSError | ValueError) and isinstance(error.__cause__, FileFailed)
    )
