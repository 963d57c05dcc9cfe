"""Starts a sandbox at its first use, replaces it when it has died or its workspace folder was replaced."""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from libs.redaction import Redact
from libs.sandbox.errors import SandboxDied, SandboxError, WorkspaceMissing
from libs.sandbox.host.awaited_answers import give_up
from libs.sandbox.host.channel import Channel
from libs.sandbox.host.folder_watch import FolderWatch
from libs.sandbox.host.idle_close import Keep, close_when_idle
from libs.sandbox.host.loop_thread import core, on_core, synchronous, until_done
from libs.sandbox.host.new_workspace import ChannelTree, Fill, NewWorkspace
from libs.sandbox.host.requests import redacted_errors
from libs.sandbox.host.thread_notes import ThreadNotes
from libs.sandbox.workspace import Folders, folder_at

__all__ = ["SandboxLife", "closed_meanwhile"]

_NUMBERS = itertools.count(1)
"""Counts the sandboxes that were started: one count for all objects, as a thread may get another object."""
_START_SECONDS = 60.0
"""Seconds until a start counts as failed. The sandbox is then closed, for all callers."""


class SandboxLife(ABC):
    """Keeps a channel to a running sandbox. Thread-safe.

    `libs.sandbox.protocol.Sandbox` documents the methods that have no docstring here.
    """

    root: Path
    """The workspace on this machine."""
    renews = True
    """Whether the next call starts a new sandbox if a folder was replaced."""
    fill: Fill | None = None
    """Fills the workspace of each new sandbox before any other request. Set if a sandbox starts empty."""
    keep: Keep | None = None
    """Keeps the workspace before the sandbox is closed because it is idle, or by `close`. If that fails, an
    idle sandbox stays open."""
    check: Callable[[], Awaitable[None]] | None = None
    """Called before files are read. Raises SandboxError if the workspace may be older than another one."""
    node = ""
    """The machine of a cluster on which the sandbox runs. Empty: this machine."""

    def __init__(self, idle_seconds: float, redact: Redact | None) -> None:
        self._idle_seconds = idle_seconds
        self._redact = redact
        self._channel: Channel | None = None
        self._new: NewWorkspace | None = None
        """The workspace of the latest channel."""
        self._starting = threading.Lock()
        self._asked_at = 0.0
        """When the call came that caused the current start."""
        self._failed: tuple[float, SandboxError] | None = None
        """Time and error of the last failed start."""
        self._left: set[Channel] = set()
        """Channels to earlier workspace folders. Each is closed when its last request has ended."""
        self._watch = FolderWatch(self._folders_there)
        self._made = False
        """Whether a start that failed has made the workspace folder since the latest sandbox."""
        self.notes = ThreadNotes()
        """What the threads have run. `SandboxesByThread` replaces the notes before the first call."""
        self._refused: set[str] | None = None
        """See `without_network`. None: programs reach what the gateway allows."""

    @abstractmethod
    def _connect(self) -> Channel:
        """Start a fresh sandbox, without waiting until it is ready. Called by one thread at a time.

        Raises:
            SandboxError: the sandbox cannot be started.
        """

    @abstractmethod
    def _not_ready(self, died: SandboxDied | None) -> SandboxError:
        """Return the error for a sandbox that did not become ready. `died` is None if it stayed silent."""

    def _folders_there(self) -> Folders | None:
        """Return the workspace and the other folders in use. None: none is in use."""
        return Folders((folder_at(self.root),))

    def _mounted_at(self) -> Sequence[str]:
        """Return the paths inside of the folders that are mounted to read, ordered as by `_folders_there`."""
        return ()

    @property
    def missing_folders(self) -> list[str]:
        """The paths inside of folders that are mounted to read and were gone at the last check."""
        paths = self._mounted_at()
        return [paths[number - 1] for number in self._watch.missing]

    def _workspace_is_missing(self) -> bool:
        """Return whether there is no workspace folder, so that a start makes one. Blocks."""
        try:
            return folder_at(self.root) is None
        except OSError:
            return False

    @property
    def redact(self) -> Redact | None:
        """Removes secrets from everything that leaves the sandbox."""
        return self._redact

    @property
    def running(self) -> bool:
        """Whether the sandbox is started, ready, filled and alive."""
        return self.tree is not None

    @property
    def tree(self) -> ChannelTree | None:
        """The workspace of the running sandbox. None: none runs."""
        channel, new = self._live(), self._new
        if not (channel and channel.ready and new and new.belongs_to(channel)):
            return None
        return new.tree if self.fill is None or new.is_filled() else None

    def outdated(self) -> bool:
        """Return whether a folder is gone, or another one is at its path: see `FolderWatch`. Blocks."""
        return self._watch.outdated()

    @on_core
    async def astart(self) -> None:
        """Start the sandbox now and wait until it is ready.

        Raises:
            SandboxError: the sandbox cannot be started, or was closed meanwhile.
        """
        await self._ready_channel()

    start = synchronous(astart)

    @contextmanager
    def without_network(self) -> Iterator[set[str]]:
        """Refuse all network to all programs inside, for the length of the block.

        Yields a set that gets the hosts that were refused although the gateway allows them.
        """
        self._refused = refused = set[str]()
        try:
            yield refused
        finally:
            self._refused = None

    def reset(self) -> None:
        self.close()

    async def areset(self) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop the sandbox. Cancelling waits until it is stopped."""
        closing = asyncio.ensure_future(asyncio.to_thread(self.close))
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            await asyncio.wait({closing})
            raise

    def close(self) -> None:
        # Not a coroutine: closing waits for the Engine, and the interpreter's exit has no event loop.
        if self._channel or self._left:
            core().refuse_here()
        with self._starting:
            channels, self._left = {*self._left, self._channel}, set()
            self._channel = self._new = None
            for channel in channels:
                if channel:
                    channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- starting

    def _live(self) -> Channel | None:
        channel = self._channel
        return channel if channel and not channel.closed else None

    def _start(self, asked: float) -> Channel:
        """Return a channel to a running sandbox. `asked`: when the caller's request came."""
        with self._starting:
            self._asked_at = asked
            channel = self._live()
            if channel is None:
                if self._failed and self._failed[0] >= asked:
                    # The start failed while this caller waited. Trying again could take a minute per caller.
                    raise self._failed[1].again()
                missing = self._workspace_is_missing()
                try:
                    with redacted_errors(self._redact):
                        channel = self._connect()
                except SandboxError as error:
                    self._made = self._made or (missing and not self._workspace_is_missing())
                    self._failed = time.monotonic(), error.again()
                    raise
                channel.redact = self._redact
                channel.owner = self
                channel.number = next(_NUMBERS)
                if channel.door:
                    channel.door.refuse(lambda: self._refused)
                channel.used()
                self._new = NewWorkspace(channel, self._mounted_at())
                self._channel = channel
                self.notes.sandboxes.started(
                    channel.number, self._watch.begin(), self._mounted_at(), made=self._made or missing
                )
                self._made = False
                if self._idle_seconds:
                    core().spawn(
                        close_when_idle(
                            weakref.ref(channel), self._idle_seconds, partial(_keep_of, weakref.ref(self))
                        )
                    )
            return channel

    async def _ready_channel(self) -> Channel:
        """Return the channel of a sandbox that is ready and filled. Starts the sandbox if needed.

        Raises:
            SandboxError: the sandbox cannot be started or filled, or was closed meanwhile. Nothing was sent.
        """
        channel = self._live()
        if channel is None:
            channel = await asyncio.to_thread(self._start, time.monotonic())
        if not channel.ready:
            await self._came_up(channel)
        if self.fill and (new := self._new) and new.belongs_to(channel):
            await new.filled(self.fill)
        return channel

    async def _current_channel(self) -> Channel:
        """Return the channel of a ready sandbox on the folders that are at their paths now.

        Raises like `_ready_channel`, and WorkspaceMissing.
        """
        while True:
            channel = await self._ready_channel()
            if not (self.renews and self._watch.due):
                return channel
            if await self._watch.replaced():
                await asyncio.to_thread(self._leave, channel)
            if self._channel is channel:  # left neither here nor by another caller meanwhile
                return channel

    async def _came_up(self, channel: Channel) -> None:
        """Wait until a new sandbox is ready. Raises like `_ready_channel`."""
        if not await until_done(channel.came_up, _START_SECONDS):
            # Closing waits for the Engine, so it runs in a thread.
            await asyncio.to_thread(give_up, channel)
        try:
            channel.came_up.result()
        except SandboxDied as error:
            if channel.given_up or channel is self._channel:
                raise await asyncio.to_thread(self._start_failed, channel, error) from None
            raise closed_meanwhile() from None

    def _start_failed(self, channel: Channel, died: SandboxDied) -> SandboxError:
        """Return the error of a failed start, and keep it for callers that wait for the same start."""
        error = self._not_ready(None if channel.given_up else died)
        if self._redact:
            error = type(error)(self._redact(str(error)), hint=error.hint)
        self._failed = time.monotonic(), error.again()
        return error

    def _leave(self, channel: Channel) -> None:
        """Let the next request start a sandbox on the new folder. Running requests of the channel go on.

        Raises:
            WorkspaceMissing: there is no folder at the path.
        """
        if not os.path.isdir(self.root):  # noqa: PTH112 - raises no PermissionError
            raise WorkspaceMissing.at(self.root)
        with self._starting:
            if self._channel is channel:
                self._channel = None
                self._left = {each for each in self._left if not each.closed} | {channel}
                core().spawn(close_when_idle(weakref.ref(channel), 0))


def closed_meanwhile() -> SandboxError:
    """Return the error of a request for which no sandbox stayed open. The request was not sent."""
    return SandboxError(
        "The sandbox was closed while it started.", hint="Nothing was asked of it yet: ask again."
    )


def _keep_of(life: weakref.ref[SandboxLife]) -> Keep | None:
    found = life()
    return found.keep if found else None
