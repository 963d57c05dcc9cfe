"""Runs coroutines on an event loop in another thread, for callers in any thread or event loop.

The work of all sandboxes runs on one such loop, the core. So each operation is written once, as a coroutine,
and `synchronous` makes the blocking method from it.
"""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Generic, ParamSpec, TypeVar

__all__ = ["LoopThread", "blocking", "core", "on_core", "synchronous", "until_done"]

P = ParamSpec("P")
Result = TypeVar("Result")

_THREADS = 64
"""Blocking calls at once, such as calls to a hanging Engine. Further calls wait."""
_LATE = 0.1
"""Seconds. A timer that is later shows that this process was stopped, as by Ctrl-Z, or is very busy."""
_CATCH_UP = 1.0
"""Seconds in which the other threads then read what came meanwhile."""


class LoopThread:
    """An event loop in a daemon thread. Work runs in a copy of the caller's context."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(ThreadPoolExecutor(_THREADS, f"{name}-blocking"))
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def spawn(self, work: Coroutine[Any, Any, Result]) -> _Spawned[Result]:
        """Run `work` on this loop, and do not wait for it."""
        return _Spawned(work, self._loop)

    def refuse_here(self) -> None:
        """Raise RuntimeError if the caller runs on this loop, which a synchronous call would block."""
        if threading.current_thread() is self._thread:
            raise RuntimeError(
                f"a synchronous call on the event loop {self._thread.name!r} would wait for itself: "
                "await the asynchronous method"
            )

    async def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run `work` on this loop and await it on the caller's. Cancelling waits for the end of `work`."""
        if threading.current_thread() is self._thread:
            return await work
        spawned = self.spawn(work)
        try:
            await until_done(spawned.ended)
        except asyncio.CancelledError:
            spawned.cancel()
            await until_done(spawned.ended)
            raise
        return spawned.ended.result()

    def wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run `work` on this loop and block until it ends. Ctrl-C cancels `work` first.

        Raises:
            RuntimeError: the caller runs on this loop, so it would wait for itself.
        """
        try:
            self.refuse_here()
        except RuntimeError:
            work.close()
            raise
        spawned = self.spawn(work)
        try:
            return spawned.ended.result()
        except BaseException:
            if not spawned.ended.done():
                spawned.cancel()
                wait({spawned.ended})
            raise


class _Spawned(Generic[Result]):
    """One coroutine that runs on the loop of another thread."""

    def __init__(self, work: Coroutine[Any, Any, Result], loop: asyncio.AbstractEventLoop) -> None:
        self.ended: Future[Result] = Future()
        self._task: asyncio.Task[None] | None = None
        self._loop = loop
        loop.call_soon_threadsafe(self._begin, work)

    def cancel(self) -> None:
        """Cancel the coroutine. `ended` is done after its clean-up."""
        # After its first step: a task cancelled before would never complete `ended`.
        self._loop.call_soon_threadsafe(lambda: self._task and self._loop.call_soon(self._task.cancel))

    def _begin(self, work: Coroutine[Any, Any, Result]) -> None:
        self._task = self._loop.create_task(self._carry_out(work))

    async def _carry_out(self, work: Coroutine[Any, Any, Result]) -> None:
        try:
            self.ended.set_result(await work)
        except BaseException as error:  # noqa: BLE001 - passed to the caller, CancelledError too
            self.ended.set_exception(error)


async def until_done(future: Future[Any], seconds: float | None = None) -> bool:
    """Wait for a future of another thread; return whether it is done. Cancelling leaves the future alone.

    If the timer is late, the other thread gets `_CATCH_UP` more seconds: see `_LATE`.

    Cheaper than `asyncio.wrap_future`, which each command would need twice.
    """
    loop = asyncio.get_running_loop()
    woken = loop.create_future()
    timer: asyncio.TimerHandle | None = None

    def wake() -> None:
        if not woken.done():
            woken.set_result(None)

    def wake_here(_: object) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(wake)

    def ring(due: float) -> None:
        nonlocal timer
        if loop.time() - due > _LATE:
            timer = loop.call_later(_CATCH_UP, wake)
        else:
            wake()

    future.add_done_callback(wake_here)
    if seconds is not None:
        due = loop.time() + seconds
        timer = loop.call_at(due, ring, due)
    try:
        await woken
    finally:
        if timer:
            timer.cancel()
    return future.done()


@functools.cache
def core() -> LoopThread:
    """Return the loop on which the work of all sandboxes runs. Nothing may block it."""
    return LoopThread("sandbox-core")


def on_core(
    work: Callable[P, Coroutine[Any, Any, Result]],
) -> Callable[P, Coroutine[Any, Any, Result]]:
    """Make a coroutine function run on the core, whatever loop awaits it."""

    @functools.wraps(work)
    async def asynchronous(*args: P.args, **kwargs: P.kwargs) -> Result:
        return await core().run(work(*args, **kwargs))

    return asynchronous


def synchronous(work: Callable[P, Coroutine[Any, Any, Result]]) -> Callable[P, Result]:
    """Make a blocking function from a coroutine function of a sandbox. See `LoopThread.wait`."""
    return _twin(work, core)


def blocking(work: Callable[P, Coroutine[Any, Any, Result]]) -> Callable[P, Result]:
    """Make a blocking function from a coroutine function outside of a sandbox, such as a graph's node.

    All of them share one event loop, because a model client keeps connections that belong to one loop. The
    loop is not the core, because a node could block it.
    """
    return _twin(work, _outside)


def _twin(
    work: Callable[P, Coroutine[Any, Any, Result]], loop: Callable[[], LoopThread]
) -> Callable[P, Result]:
    @functools.wraps(work)
    def twin(*args: P.args, **kwargs: P.kwargs) -> Result:
        return loop().wait(work(*args, **kwargs))

    return twin


@functools.cache
def _outside() -> LoopThread:
    return LoopThread("blocking")


def _without_threads() -> None:
    """In a forked child, forget the loops. Their threads exist in the parent only."""
    core.cache_clear()
    _outside.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_without_threads)
