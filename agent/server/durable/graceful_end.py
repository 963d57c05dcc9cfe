"""Lets the running steps end before the server ends: after SIGTERM, Ctrl-C, or a reload.

The server gets the signal only after the steps have ended, so clients still get the results of the steps.
LangGraph's server then cancels the runs, and continues them after its next start, also those of /run
(`continued_runs.py`).
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import FrameType

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent.server.refusals import comes_from_within, refuse
from agent.threads import DRAIN
from libs.sandbox.host import process_ends

__all__ = ["OpenRequests", "steps_end_first"]

logger = logging.getLogger(__name__)

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_SAME_REQUEST = 1.0
"""Seconds in which a second signal is part of the same request. A terminal and a reloader each send one."""
_LOOK_AGAIN = 0.05
"""Seconds between checks whether steps are running; runs may be on other event loops."""
_ANSWER_SECONDS = 1.0
"""Seconds in which clients can read the results of the last steps."""
_SETTLE_SECONDS = 10.0
"""Longest time until the requests of /run, /mcp and /run-lite know how their runs ended."""
_ENDING = "The server is ending or restarting, and keeps the runs of threads: ask again in a few seconds."

_open: set[asyncio.Task[None]] = set()
"""Tasks of the requests of this process."""
_cut: set[asyncio.Task[None]] = set()
"""Tasks of `_open` that `_end_requests` has cancelled."""


class OpenRequests:
    """ASGI middleware that ends the clients' requests that are still open when the steps have ended.

    A request that waits for the end of a run would keep the server from ending. A client whose answer has
    begun sees a broken connection, and can ask for the run again. The other clients get 503.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        task = asyncio.current_task()
        # A request from within may be handled in the task of the client's request that led to it.
        if scope["type"] != "http" or task is None or comes_from_within(scope):
            await self._app(scope, receive, send)
            return
        begun = False

        async def note_and_send(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        _open.add(task)
        try:
            await self._app(scope, receive, note_and_send)
        except asyncio.CancelledError:
            if task not in _cut:
                raise
            task.uncancel()
            if not begun:
                await refuse(scope, receive, send, 503, _ENDING, headers={"Retry-After": "5"})
        finally:
            _open.discard(task)
            _cut.discard(task)


def _end_requests() -> None:
    for task in _open - _cut:
        _cut.add(task)
        task.cancel()


class _End:
    """Waits once for the running steps to end, when a signal or the server itself requests the end.

    Args:
        seconds: longest time to wait for the running steps.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._requested_at: float | None = None
        self._at_once = threading.Event()
        self._steps: asyncio.Task[None] | None = None

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Handle signals inside the block, and pass each on to the server when the steps have ended."""
        if threading.current_thread() is not threading.main_thread():  # Python handles signals there
            yield
            return
        usual = {number: handler for number in _SIGNALS if callable(handler := signal.getsignal(number))}

        def received(number: int, frame: FrameType | None) -> None:
            handler = usual[signal.Signals(number)]
            now = time.monotonic()
            if self._requested_at is None:
                self._requested_at = now
                self._loop.call_soon_threadsafe(self._pass_on, lambda: handler(number, None))
            elif now - self._requested_at < _SAME_REQUEST:
                pass
            elif self._steps is not None and self._steps.done():
                handler(number, frame)
            else:
                self._at_once.set()

        for number in usual:
            signal.signal(number, received)
        try:
            yield
        finally:
            for number, handler in usual.items():
                signal.signal(number, handler)

    async def steps(self) -> None:
        """Wait until the running steps have ended, or until their time is over."""
        await asyncio.shield(self._begun())

    def _pass_on(self, end_server: Callable[[], object]) -> None:
        self._begun().add_done_callback(lambda _: end_server())

    def _begun(self) -> asyncio.Task[None]:
        if self._steps is None:
            self._steps = asyncio.create_task(self._drain(), name="drain")
        return self._steps

    async def _drain(self) -> None:
        DRAIN.request()
        if DRAIN.at_work:
            logger.warning(
                "Running steps: %d. The server ends when they have ended, or after %g s (SHUTDOWN_SECONDS). "
                "The runs continue after the next start, except those of /run-lite: the server waits for "
                "their ends. A second signal ends the server at once.",
                DRAIN.at_work,
                self._seconds,
            )
        deadline = time.monotonic() + self._seconds
        while DRAIN.at_work and time.monotonic() < deadline and not self._at_once.is_set():  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_AGAIN)
        if DRAIN.at_work:
            logger.warning(
                "Steps stopped before their end: %d. The next server does not repeat their calls. It tells "
                "their agents that the effect of a stopped call is unknown.",
                DRAIN.at_work,
            )
        process_ends()
        DRAIN.cut()
        deadline = time.monotonic() + _SETTLE_SECONDS
        while DRAIN.answering and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_AGAIN)
        if _open:
            await asyncio.sleep(_ANSWER_SECONDS)
        _end_requests()


@asynccontextmanager
async def steps_end_first(seconds: float) -> AsyncIterator[None]:
    """Wait at the end of the block, and after a signal, until the running steps have ended.

    A step that lasts longer than `seconds`, or until a second signal, is stopped. The record of its command
    then says that this process ended.
    """
    end = _End(seconds)
    with end.on_signals():
        yield
        await end.steps()
