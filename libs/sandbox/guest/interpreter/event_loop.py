"""The event loop of a session: runs blocks that contain `await` (standard library only)."""

from __future__ import annotations

import builtins
import contextvars
from contextlib import suppress
from typing import Any

__builtins__ = dict(vars(builtins))  # type: ignore[assignment]
"""A copy, because a block may replace names in the module `builtins`."""


class EventLoop:
    """One event loop, which keeps its tasks between blocks.

    `context`: the context variables, which the blocks share.
    """

    def __init__(self, context: contextvars.Context) -> None:
        self._context = context
        self._loop: Any = None

    def run(self, coroutine: Any) -> None:
        """Run a coroutine of a block to its end. An interrupted coroutine is cancelled."""
        try:
            import asyncio

            if self._loop is None or self._loop.is_closed():
                self._loop = asyncio.new_event_loop()
            task = self._loop.create_task(coroutine, context=self._context)
        except BaseException:
            coroutine.close()  # otherwise Python warns that it was never awaited
            raise
        try:
            self._until_done(task)
        except BaseException:
            if not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError):
                    self._until_done(task)
            elif not task.cancelled():
                task.exception()  # otherwise asyncio prints later that nobody has read the error
            raise

    def _until_done(self, task: Any) -> None:
        """Run the loop until `task` is done, also if this block or an earlier one stops the loop."""
        while True:
            try:
                self._loop.run_until_complete(task)
                return
            except RuntimeError:
                if task.done() or self._loop.is_closed() or self._loop.is_running():
                    raise
