"""Builds the history of the workspaces: the captures of every thread."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

from agent.prompts import arrival_note, unkept_note
from agent.settings import LOCKS, Settings
from agent.threads.snapshot_store import build_snapshots

if TYPE_CHECKING:
    from libs.backends import WorkspaceBackend
    from libs.sandbox.host import ChannelSandbox, ChannelTree
    from libs.workspace.history import WorkspaceHistory, WorkspaceLocks
    from libs.workspace.ledger import News

__all__ = ["DeferredCaptures", "captures_of"]

logger = logging.getLogger(__name__)

_SETTLE_SECONDS = 10.0
"""A run waits so long at its end for its captures. Most have ended while the model wrote its last reply."""

_made: WeakKeyDictionary[object, DeferredCaptures] = WeakKeyDictionary()
"""Computer -> its captures. All graphs of a computer share them."""


def captures_of(settings: Settings, backend: WorkspaceBackend) -> DeferredCaptures | None:
    """Return the captures of a computer; None if it is no container."""
    from libs.backends.docker import DockerExecutionBackend

    computer = backend.default
    if not isinstance(computer, DockerExecutionBackend):
        return None
    if computer not in _made:
        # A weak reference: the computer is the key of `_made`.
        found = ref(computer)

        def sandbox_of(thread: str) -> ChannelSandbox:
            computer = found()
            if computer is None:
                raise RuntimeError("the computer of these captures is gone")
            return computer.sandbox_of(thread)

        _made[computer] = made = DeferredCaptures(
            settings, sandbox_of, shared=settings.scope == "shared", travels=settings.travels
        )
        if settings.travels:
            computer.attach = made.attach
    return _made[computer]


class DeferredCaptures:
    """Captures threads. The store is opened, and its packages are imported, at the first use.

    Args:
        place_of: returns what a thread works in.
        shared: whether all threads work in the same place.
        travels: whether these places are sandboxes that start empty.
    """

    def __init__(
        self, settings: Settings, place_of: Callable[[str], Any], *, shared: bool, travels: bool = False
    ) -> None:
        self._settings = settings
        self._place_of = place_of
        self._shared = shared
        self._travels = travels
        self._one_in = False

    def let_one_in(self) -> None:
        """Let one command at a time into a workspace, from the next turn on."""
        self._one_in = True
        if "history" in self.__dict__:
            self.history.captures.locks = self.history.captures.locks or self._locks()

    def _locks(self) -> WorkspaceLocks:
        from libs.workspace.history import WorkspaceLocks

        # A thread, and so its own workspace, belongs to one program at a time.
        return WorkspaceLocks(LOCKS.absolute() if self._shared else None)

    @functools.cached_property
    def history(self) -> WorkspaceHistory:
        """Opens nothing itself."""
        from libs.workspace import WorkspaceStore
        from libs.workspace.history import Travels, TurnCaptures, WorkspaceHistory
        from libs.workspace.prune import BackgroundPrune

        settings = self._settings
        kept = build_snapshots(settings)
        store = WorkspaceStore(kept.catalog, kept.contents, file_max=settings.snapshot_file_max)
        prune = BackgroundPrune(kept.pruner, settings.snapshots_max)
        captures = TurnCaptures(
            *(store, kept.ledger, self._place_of),
            shared=self._shared,
            captured=prune.captured,
            travels=Travels(store, kept.ledger, self._place_of) if self._travels else None,
        )
        if self._one_in:
            captures.locks = self._locks()
        return WorkspaceHistory(captures)

    def attach(self, thread: str, sandbox: ChannelSandbox) -> None:
        """Let the workspace of a thread travel. Opens nothing before the sandbox starts."""
        found = ref(sandbox)  # the sandbox holds `fill`

        async def fill(tree: ChannelTree) -> None:
            captures = (await self.made()).captures
            if (sandbox := found()) is None or captures.travels is None:
                raise RuntimeError("the sandbox that is filled is gone")
            captures.attach(thread, sandbox)
            await captures.travels.fill(thread, tree)

        sandbox.fill = fill

    async def begin_turn(self, thread: str) -> str | None:
        return await (await self.made()).captures.begin_turn(thread)

    async def after_step(self, thread: str) -> str | None:
        captures = (await self.made()).captures
        ticket = await captures.after_step(thread)
        await captures.taken_back.watch(thread)
        return ticket

    async def unkept(self, thread: str) -> str:
        travels = (await self.made()).captures.travels
        found = await travels.unkept(thread) if travels else None
        return unkept_note(found) if found else ""

    async def arrive(
        self, thread: str, ticket: str | None, is_held: Callable[[str], Awaitable[bool]]
    ) -> object:
        history = await self.made()
        moved = await history.arrive(thread, ticket, is_held)
        if moved and (moved.restored.difference or moved.restored.kept):
            note = arrival_note(moved)
            await history.ledger.tell(thread, note)
            logger.info("thread %s went back: %s", thread, note)
        return moved

    async def settled(self, thread: str) -> None:
        await (await self.made()).captures.settled(thread, most=_SETTLE_SECONDS)

    async def news(self, thread: str) -> News | None:
        return await (await self.made()).ledger.news(thread)

    async def made(self) -> WorkspaceHistory:
        """Return the history."""
        # Imports and the working directory: not on an event loop.
        return await asyncio.to_thread(lambda: self.history)
