"""What the threads do in a sandbox: commands and captures take turns, and programs are left running."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field

from libs.sandbox.host.channel import Channel

__all__ = ["OUTSIDE", "Span", "ThreadPrograms", "Turns", "file_clock"]

OUTSIDE = "outside-of-threads"
"""The thread of calls that are made outside of any thread. Calls of two programs have nothing in common."""
_MOST_SPANS = 10_000
"""Commands that are remembered until the next capture. The changes of older commands count as changes of
others."""
_COARSE = 5
"""CLOCK_REALTIME_COARSE of Linux, which Python does not name."""
_MOST_LEFT = 1_000
"""Commands of a thread that are remembered because they left something running."""


@dataclass(slots=True)
class Span:
    """The time of one command."""

    thread: str
    began: int
    """Nanoseconds, by the clock of the files: see `file_clock`."""
    ended: int | None = None
    """Nanoseconds, as `time.time_ns`. None while the command runs, or what it has left running."""


def file_clock() -> int:
    """Return the time, in nanoseconds, of the clock that gives files their times.

    This clock is late: it ticks every 1 to 10 ms, and skips ticks if the processors are busy. A file that is
    changed from now on has this time or a later one. See clock_gettime(2), CLOCK_REALTIME_COARSE.
    """
    return time.clock_gettime_ns(_COARSE) if sys.platform == "linux" else time.time_ns()


@dataclass(slots=True)
class _Thread:
    running: int = 0
    quiet: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while no command of the thread runs."""
    latest: asyncio.Task[None] | None = None
    """The latest capture, until its end."""
    queued: asyncio.Task[None] | None = None
    """The latest capture, until its begin."""
    due: Callable[[], Awaitable[None]] | None = None
    """Makes a capture before the next command."""


class Turns:
    """Belongs to one sandbox. Used on the sandboxes' event loop only.

    A capture begins when no command of its thread runs. From then until its end, the next commands of the
    thread wait. Commands of other threads go on.
    """

    def __init__(self) -> None:
        self._threads: dict[str, _Thread] = {}
        self.spans: deque[Span] = deque(maxlen=_MOST_SPANS)
        """Commands whose changes no capture has seen for certain."""
        self.watched = False
        """Whether anybody captures this workspace. Otherwise no spans are kept."""
        self.look: Callable[[str], Awaitable[None]] | None = None
        """Called with the thread before each of its commands, which begins when the call has ended."""
        self.alone: Callable[[], AbstractAsyncContextManager[None]] | None = None
        """Makes the lock that each command holds. None: commands of all threads run at once."""

    @property
    def idle(self) -> bool:
        """Whether no command and no capture of any thread runs or is due."""
        return not self._threads

    @asynccontextmanager
    async def command(self, thread: str) -> AsyncIterator[None]:
        """Hold this while a command runs, or a file operation that changes something."""
        async with self.lock(), self._command(thread):
            yield

    def lock(self) -> AbstractAsyncContextManager[None]:
        """Return the lock that each command holds. A task that holds the lock may hold it again."""
        return self.alone() if self.alone else nullcontext()

    @asynccontextmanager
    async def _command(self, thread: str) -> AsyncIterator[None]:
        if not self.watched:
            yield
            return
        looked = self.look is None
        while True:
            state = self._threads.setdefault(thread, _Thread())
            if state.due and not state.running:
                self.capture(thread, state.due)  # all commands wait for it, not only this one
            elif state.latest and not state.running:
                await asyncio.wait({state.latest})
            elif self.look and not looked:
                await self.look(thread)
                looked = True
            else:
                break
        span = Span(thread, file_clock())
        self.spans.append(span)
        state.running += 1
        state.quiet.clear()
        try:
            yield
        finally:
            span.ended = time.time_ns()
            state.running -= 1
            if not state.running:
                state.quiet.set()
                self._rest(thread)

    @contextmanager
    def still_running(self, thread: str, since: int) -> Iterator[None]:
        """Hold this until nothing runs any more that the latest command of a thread has left running.

        What is changed meanwhile counts as changed by the command.

        Args:
            since: only a command that has begun since then, by the clock of the files.
        """
        latest = [span for span in self.spans if span.thread == thread and span.began >= since][-1:]
        for span in latest:
            span.ended = None
        try:
            yield
        finally:
            for span in latest:
                span.ended = time.time_ns()

    def before_next(self, thread: str, capture: Callable[[], Awaitable[None]]) -> None:
        """Make a capture before the next command of a thread, instead of now."""
        self.watched = True
        self._threads.setdefault(thread, _Thread()).due = capture

    def is_due(self, thread: str) -> bool:
        """Return whether no command has begun since `before_next`."""
        state = self._threads.get(thread)
        return state is not None and state.due is not None

    def capture(self, thread: str, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """Begin a capture when the running commands of the thread have ended. Return its task.

        If an earlier capture of the thread has not begun yet, its task is returned, and `work` is not called.
        """
        self.watched = True
        state = self._threads.setdefault(thread, _Thread())
        state.due = None
        if state.queued:
            return state.queued
        before = state.latest

        async def in_turn() -> None:
            if before:
                await asyncio.wait({before})
            if state.running:
                await state.quiet.wait()
            state.queued = None
            await work()

        def ended(task: asyncio.Task[None]) -> None:
            if state.queued is task:  # cancelled before its begin
                state.queued = None
            if state.latest is task:
                state.latest = None
                self._rest(thread)

        task = asyncio.ensure_future(in_turn())
        task.add_done_callback(ended)
        state.latest = state.queued = task
        return task

    async def settled(self, thread: str) -> None:
        """Wait until the captures of a thread have ended."""
        state = self._threads.get(thread)
        while state and state.latest:
            await asyncio.wait({state.latest})

    async def all_settled(self) -> None:
        """Wait until all captures have ended that do not wait for a running command."""
        for state in list(self._threads.values()):
            while state.latest and not state.running:
                await asyncio.wait({state.latest})

    def forget_spans(self, seen: Collection[Span], began: int) -> None:
        """Forget commands after a capture that began at a time has entered the ledger.

        Args:
            seen: the commands that the capture has taken into account.
        """
        # The capture may not have seen the last changes of a command that ended later.
        done = {id(span) for span in seen if span.ended is not None and span.ended < began}
        kept = [span for span in self.spans if id(span) not in done]
        self.spans.clear()
        self.spans.extend(kept)

    def _rest(self, thread: str) -> None:
        """Forget a thread that does nothing."""
        state = self._threads.get(thread)
        if state and not (state.running or state.latest or state.due):
            del self._threads[thread]


class ThreadPrograms:
    """What commands have left running in one sandbox. Used on the sandboxes' event loop only."""

    def __init__(self) -> None:
        self._left: defaultdict[str, list[tuple[Channel, int]]] = defaultdict(list)
        """Thread -> its commands that left something running."""

    def left_running(self, thread: str, channel: Channel, stream: int) -> None:
        """Note that a command has left something running."""
        alive = [left for left in self._left[thread] if not left[0].closed]
        self._left[thread] = [*alive, (channel, stream)][-_MOST_LEFT:]

    def has_background(self, thread: str) -> bool:
        """Return whether commands of a thread may have left something running."""
        return any(not channel.closed for channel, _ in self._left.get(thread, ()))

    def end_left(self, thread: str, stream: int, sandbox: int) -> None:
        """End what one command of a thread has left running in a sandbox."""
        for left in self._left.get(thread, ()):
            channel, of_command = left
            if of_command == stream and channel.number == sandbox and not channel.closed:
                channel.end_left(stream)
                self._left[thread].remove(left)
                return

    def end_background(self, thread: str) -> None:
        """End what the commands of a thread have left running."""
        for channel, stream in self._left.pop(thread, []):
            if not channel.closed:
                channel.end_left(stream)
