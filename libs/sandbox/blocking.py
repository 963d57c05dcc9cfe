"""Asynchronous work for synchronous callers."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

__all__ = ["blocking"]

Given = TypeVar("Given")
Done = TypeVar("Done")


def blocking(node: Callable[[Given], Coroutine[Any, Any, Done]]) -> Callable[[Given], Done]:
    """Return a function that runs `node` to its end, in the context of its caller.

    All run on one event loop in a thread of its own: a caller may have a running loop, and clients of models
    keep connections that belong to the loop they were made on.
    """

    def run(given: Given) -> Done:
        future = asyncio.run_coroutine_threadsafe(node(given), _loop())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    return run


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="blocking", daemon=True).start()
    return loop
