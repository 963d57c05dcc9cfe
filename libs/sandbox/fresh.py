"""A fresh sandbox for each piece of work, from spares that wait ready, and ended behind whoever used it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import Generic, Protocol, TypeVar

from libs.sandbox.protocol import Sandbox
from libs.sandbox.ready import Ready
from libs.sandbox.redact import Redact

__all__ = ["Fresh", "FreshSandboxes"]

_AT_ONCE = 8
"""Sandboxes that are ended at once."""
_PAUSE = 0.1
"""Seconds until one is ended: whoever has just given it back is about to answer."""


class Fresh(Sandbox, Protocol):
    """A sandbox for one piece of work."""

    @property
    def running(self) -> bool: ...
    @property
    def redact(self) -> Redact | None: ...
    def start(self) -> None: ...
    async def aread_file(self, path: str, *, redacted: bool = True) -> bytes: ...
    def belongs_to(self, thread: str) -> None:
        """Say whose work it does, once it has been started."""
        ...


S = TypeVar("S", bound=Fresh)


class FreshSandboxes(Generic[S]):
    """Gives each piece of work a sandbox that nothing has run in. Thread-safe; starts none by itself.

    Args:
        make: one that is not started.
        warm: spares that are kept ready from the first use on; 0 for none.
        first: is done in each once it is started, a spare or not; may raise SandboxError.
        most: how many do work at once. Further ones wait.
    """

    def __init__(
        self,
        make: Callable[[], S],
        *,
        warm: int = 1,
        most: int = 8,
        first: Callable[[S], None] = lambda _: None,
    ) -> None:
        if most < 1:
            raise ValueError(f"most must be at least 1, not {most}")
        self._make = make
        self._first = first
        self._ready: Ready[S] = Ready(make, lambda sandbox: sandbox.close(), warm, started=first)
        self._turns = threading.BoundedSemaphore(most)
        self._used: set[S] = set()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._ending = ThreadPoolExecutor(_AT_ONCE, "sandbox-end")
        self._taking = ThreadPoolExecutor(max_workers=64, thread_name_prefix="sandbox-take")

    def prepare(self) -> None:
        """Have the spares started, as something is about to be run; returns at once."""
        self._ready.fill(at_once=True)

    @contextmanager
    def one(self, thread: str = "") -> Iterator[S]:
        """A sandbox for the length of the block, for work of a thread.

        It is ended when the block ends, however that is; nobody waits for it.

        Raises:
            SandboxError: none can be started.
        """
        sandbox = self._take(thread)
        try:
            yield sandbox
        finally:
            self._give_back(sandbox)

    @asynccontextmanager
    async def aone(self, thread: str = "") -> AsyncIterator[S]:
        """`one`, without blocking the event loop."""
        taking = self._taking.submit(self._take, thread)
        try:
            sandbox = await asyncio.wrap_future(taking)
        except asyncio.CancelledError:
            taking.add_done_callback(self._came_too_late)
            raise
        try:
            yield sandbox
        finally:
            self._give_back(sandbox)

    def close(self) -> None:
        """End all of them, and wait for that. What is under way finds its sandbox dead."""
        self._closing.set()
        self._ready.close()
        with self._lock:
            used = list(self._used)
        for done in [self._ending.submit(sandbox.close) for sandbox in used]:
            done.result()
        self._closing.clear()

    def _take(self, thread: str) -> S:
        self._turns.acquire()
        try:
            sandbox = self._ready.take(patient=True) or self._make()
            with self._lock:
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
            self._turns.release()
            raise
        self._ready.fill()
        return sandbox

    def _give_back(self, sandbox: S) -> None:
        self._turns.release()
        self._ending.submit(self._end_soon, sandbox)

    def _came_too_late(self, taking: Future[S]) -> None:
        """Whoever wanted it has gone while it was started."""
        if not taking.cancelled() and taking.exception() is None:
            self._give_back(taking.result())

    def _end_soon(self, sandbox: S) -> None:
        self._closing.wait(_PAUSE)
        self._end(sandbox)

    def _end(self, sandbox: S) -> None:
        try:
            sandbox.close()
        finally:
            with self._lock:
                self._used.discard(sandbox)
