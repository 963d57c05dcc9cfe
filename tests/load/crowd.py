"""Tasks that use sandboxes at the same time and can pause."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from libs.sandbox import FileFailed, SandboxError
from libs.sandbox.host.channel_sandbox import ChannelSandbox
from tests.load.ledger import Ledger, half_files
from tests.load.steps import Steps


@dataclass(frozen=True)
class Place:
    """A sandbox and its workspace on the host."""

    sandbox: ChannelSandbox
    root: Path


@dataclass
class _Worker:
    name: str
    place: Place
    steps: Steps
    doing: str = ""
    since: float = 0.0


class Crowd:
    """Works on each place with tasks on one event loop, from `go` to `pause`, until it is closed.

    Args:
        places: Sandboxes by name.
        tasks: Number of tasks for each place.
        harsh: See Steps. Typed errors are accepted then; other errors never are.
        tell: See Ledger. Also gets the name of the worker.
    """

    def __init__(
        self,
        places: Mapping[str, Place],
        *,
        seed: str,
        tasks: int = 4,
        harsh: bool = True,
        largest: int = 3_000_000,
        tell: Callable[[str, str], None] = lambda _, __: None,
    ) -> None:
        self.faults: list[str] = []
        self.done = 0
        self.refused = 0
        """Calls that ended with a typed error."""
        self.longest = 0.0
        """Seconds of the longest call."""
        self._harsh = harsh
        self._open = threading.Event()
        self._closing = False

        def worker(name: str, place: Place) -> _Worker:
            ledger = Ledger(lambda line: tell(name, line))
            return _Worker(name, place, Steps(name, seed, largest=largest, harsh=harsh, ledger=ledger))

        self._workers = [worker(f"{at}-{n}", place) for at, place in places.items() for n in range(tasks)]
        self._thread = threading.Thread(target=lambda: asyncio.run(self._all()), name="load")
        self._thread.start()

    def go(self) -> None:
        self._open.set()

    def pause(self, seconds: float = 60) -> None:
        """Wait until every call under way has ended.

        Raises:
            AssertionError: A call has not ended after `seconds`.
        """
        self._open.clear()
        deadline = time.monotonic() + seconds
        while busy := [each for each in self._workers if each.doing]:
            now = time.monotonic()
            assert now < deadline, [f"{each.name}: {each.doing}, {now - each.since:.0f} s" for each in busy]
            time.sleep(0.01)

    def check(self) -> None:
        """Compare results and disk with the expected ones. Call only while paused."""
        faults, self.faults = self.faults, []
        for each in self._workers:
            faults += [f"{each.name}: {fault}" for fault in each.steps.ledger.faults(each.place.root)]
        assert not faults, "\n".join(faults[:20])

    def half_files(self, *, breaks: int) -> list[str]:
        """See `tests.load.ledger.half_files`. Call only while paused."""
        ledgers = [each.steps.ledger for each in self._workers]
        roots = {each.place.root for each in self._workers}
        return [fault for root in roots for fault in half_files(ledgers, root, breaks=breaks)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing = True
        self._thread.join(60)
        assert not self._thread.is_alive()

    async def _all(self) -> None:
        await asyncio.gather(*(self._work(worker) for worker in self._workers))

    async def _work(self, worker: _Worker) -> None:
        while not self._closing:
            # Set before the look: `pause`, in another thread, clears `_open` and then waits for `doing`.
            worker.doing, worker.since = "begins", time.monotonic()
            if self._open.is_set():
                await self._step(worker)
            worker.doing = ""
            await asyncio.sleep(0.001 if self._open.is_set() else 0.02)

    async def _step(self, worker: _Worker) -> None:
        step = worker.steps.next()
        worker.doing = f"{step.method} {str(step.arguments)[:100]}"
        wrong = None
        try:
            call = getattr(worker.place.sandbox, f"a{step.method}")(**step.arguments)
            wrong = step.wrong(await asyncio.wait_for(call, step.cancel_after))
        except Exception as error:  # noqa: BLE001 - every error is judged
            if step.cancel_after is None or not isinstance(error, TimeoutError):
                self.refused += 1
                wrong = None if self._harsh and is_typed(error) else f"raised {error!r}"
        self.done += 1
        self.longest = max(self.longest, time.monotonic() - worker.since)
        if wrong:
            self.faults.append(f"{worker.name}: {worker.doing}: {wrong}")


def is_typed(error: BaseException | None) -> bool:
    """Return whether the error is part of the contract (libs/sandbox/protocol.py)."""
    return isinstance(error, SandboxError | FileFailed) or (
        isinstance(error, OSError | ValueError) and isinstance(error.__cause__, FileFailed)
    )
