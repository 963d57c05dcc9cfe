"""Gives each task a fresh sandbox, and closes the sandbox after the task."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Collection
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Generic, Protocol, TypeVar

from libs.redaction import Redact
from libs.sandbox.pool.spares import Ready
from libs.sandbox.protocol import Sandbox

__all__ = ["Fresh", "FreshSandboxes"]

_AT_ONCE = 8
"""Sandboxes that are closed at the same time."""
_PAUSE = 0.1
"""Seconds until a used sandbox is closed, so that closing does not slow down the caller's answer."""


class Fresh(Sandbox, Protocol):
    """A sandbox for one task."""

    @property
    def running(self) -> bool: ...
    @property
    def disk(self) -> int: ...
    @property
    def has_network(self) -> bool: ...
    @property
    def unreached(self) -> Collection[str]: ...
    @property
    def redact(self) -> Redact | None: ...
    def start(self) -> None: ...
    def without_network(self) -> AbstractContextManager[set[str]]: ...
    def outdated(self) -> bool:
        """Return whether a folder that the sandbox uses is gone, or another one is at its path."""
        ...

    async def aend_programs(self, thread: str) -> None:
        """End what commands of a thread have left running."""
        ...

    def belongs_to(self, thread: str) -> None:
        """Set the thread of the task, after the start."""
        ...


S = TypeVar("S", bound=Fresh)


class FreshSandboxes(Generic[S]):
    """Gives each task an unused sandbox. Thread-safe. Starts no sandbox before the first call.

    Args:
        make: creates a sandbox that is not started.
        warm: number of spares that are kept ready after the first use; 0: none.
        first: is called with each started sandbox, spares included. May raise SandboxError.
        most: number of tasks at once. Further tasks wait.
    """

    def __init__(
        self,
        make: Callable[[], S],
        *,
        warm: int = 1,
        most: int = 8,
        first: Callable[[S], None] = lambda _: None,
    ) -> None:
        self._make = make
        self._first = first
        self._ready: Ready[S] = Ready(make, lambda sandbox: sandbox.close(), warm, started=first)
        self._most = most
        self._running = 0
        """Tasks that have a turn."""
        self._turn = threading.Condition()
        self._used: set[S] = set()
        self._left: set[Future[S]] = set()
        """Starts that go on although their callers were cancelled."""
        self._closing = threading.Event()
        self._ending = ThreadPoolExecutor(_AT_ONCE, "sandbox-end")
        self._taking = ThreadPoolExecutor(max_workers=64, thread_name_prefix="sandbox-take")

    def prepare(self) -> None:
        """Start the spares in the background."""
        self._ready.fill(at_once=True)

    @asynccontextmanager
    async def one(self, thread: str = "") -> AsyncIterator[S]:
        """Provide a sandbox for the length of the block.

        The sandbox is closed in the background when the block ends.

        Raises:
            SandboxError: no sandbox can be started.
        """
        left = threading.Event()
        taking = self._taking.submit(self._take, thread, left)
        try:
            yield await asyncio.wrap_future(taking)
        finally:
            if not taking.done():
                self._left.add(taking)
                with self._turn:
                    left.set()
                    self._turn.notify_all()
            # At once, or when the start of a cancelled caller ends.
            taking.add_done_callback(self._give_back)

    def close(self) -> None:
        """Close all sandboxes and wait for that. Running tasks get SandboxDied."""
        self._closing.set()
        wait(list(self._left))  # they may start sandboxes and spares until then
        self._ready.close()
        for done in [self._ending.submit(sandbox.close) for sandbox in list(self._used)]:
            done.result()
        self._closing.clear()

    def _take(self, thread: str, left: threading.Event) -> S:
        """Return a sandbox for a task. `left` is set when the caller does not wait any more."""
        with self._turn:
            self._turn.wait_for(lambda: left.is_set() or self._running < self._most)
            if left.is_set():
                raise CancelledError
            self._running += 1
        try:
            sandbox = self._ready.take(patient=True) or self._make()
            self._used.add(sandbox)
            try:
                if not sandbox.running:
                    sandbox.start()
                    self._first(sandbox)
                sandbox.belongs_to(thread)
            except BaseException:
                self._end(sandbox)
                raise
        except BaseException:
            self._end_turn()
            raise
        self._ready.fill()
        return sandbox

    def _end_turn(self) -> None:
        with self._turn:
            self._running -= 1
            self._turn.notify()

    def _give_back(self, taking: Future[S]) -> None:
        self._left.discard(taking)
        if not taking.cancelled() and taking.exception() is None:
            self._end_turn()
            self._ending.submit(self._end_soon, taking.result())

    def _end_soon(self, sandbox: S) -> None:
        self._closing.wait(_PAUSE)
        self._end(sandbox)

    def _end(self, sandbox: S) -> None:
        try:
            sandbox.close()
        finally:
            self._used.discard(sandbox)
