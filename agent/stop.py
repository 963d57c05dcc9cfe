"""Ctrl-C: once to stop what runs and end in good order, twice to end at once."""

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
"""Exit status after Ctrl-C, as a shell gives it."""

T = TypeVar("T")


def run_stoppable(main: Coroutine[Any, Any, T]) -> T:
    """Run `main`; Ctrl-C cancels it, so that it can clean up, and a second one ends the program at once.

    Ending at once leaves nothing behind: the sandbox ends with the program that owns it.
    """

    async def stoppable() -> T:
        task = asyncio.ensure_future(main)
        with on_ctrl_c(task):
            return await task

    return asyncio.run(stoppable())


@contextmanager
def on_ctrl_c(task: asyncio.Future[T]) -> Iterator[None]:
    """Within, Ctrl-C cancels `task`, and a second one ends the program at once."""
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
    """While a person is asked, Ctrl-C raises KeyboardInterrupt out of the reading of the answer."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
