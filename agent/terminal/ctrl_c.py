"""Handles Ctrl-C: the first stops the run and cleans up, the second ends the program at once."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

__all__ = ["STOPPED", "on_ctrl_c", "prompting", "run_stoppable"]

STOPPED = 128 + signal.SIGINT
"""Exit status after Ctrl-C, as in a shell."""

T = TypeVar("T")


def run_stoppable(main: Coroutine[Any, Any, T]) -> T:
    """Run `main`. Ctrl-C cancels `main`, a second Ctrl-C ends the program at once.

    Ending at once leaves no container: a sandbox ends with its program.
    """

    async def stoppable() -> T:
        task = asyncio.ensure_future(main)
        with on_ctrl_c(task):
            return await task

    return asyncio.run(stoppable())


@contextmanager
def on_ctrl_c(task: asyncio.Future[T]) -> Iterator[None]:
    """Return a context in which Ctrl-C cancels `task`, and a second Ctrl-C ends the program at once."""
    loop = asyncio.get_running_loop()
    stopping = False

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        nonlocal stopping
        if stopping:
            os._exit(STOPPED)
        stopping = True
        os.write(2, b"\nStopping. Ctrl-C again ends the program at once.\n")
        loop.call_soon_threadsafe(task.cancel)

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def prompting() -> Iterator[None]:
    """Return a context in which Ctrl-C raises KeyboardInterrupt, for reading an answer."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
