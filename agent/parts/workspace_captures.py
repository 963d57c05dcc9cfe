"""Builds the history of the workspaces: the captures of every thread."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, ref

from agent.settings import WORKSPACES, Settings
from libs.persistence.thread_database import Database, PostgresDatabase, SqliteDatabase

if TYPE_CHECKING:
    from libs.backends import WorkspaceBackend
    from libs.backends.docker import DockerExecutionBackend
    from libs.sandbox.host import ChannelSandbox
    from libs.workspace import WorkspaceHistory

__all__ = ["DeferredCaptures", "captures_of"]

_made: WeakKeyDictionary[object, DeferredCaptures] = WeakKeyDictionary()
"""Computer -> its captures. All graphs of a computer share them."""


def captures_of(settings: Settings, backend: WorkspaceBackend) -> DeferredCaptures | None:
    """Return the captures of a computer; None if it is no container."""
    from libs.backends.docker import DockerExecutionBackend

    computer = backend.default
    if not isinstance(computer, DockerExecutionBackend):
        return None
    return _made.setdefault(computer, DeferredCaptures(settings, computer))


class DeferredCaptures:
    """The captures of one computer. The store is opened, and its packages are imported, at the first use."""

    def __init__(self, settings: Settings, computer: DockerExecutionBackend) -> None:
        self._settings = settings
        # A weak reference: the computer is the key of `_made`.
        self._computer = ref(computer)

    @functools.cached_property
    def history(self) -> WorkspaceHistory:
        """Opens nothing itself."""
        from libs.workspace import Catalog, Contents, Ledger, WorkspaceHistory, WorkspaceStore

        settings = self._settings
        database = build_workspaces(settings)
        store = WorkspaceStore(
            Catalog(database), Contents(settings.snapshots_url), file_max=settings.snapshot_file_max
        )
        shared = settings.scope == "shared"
        return WorkspaceHistory(store, Ledger(database), self._sandbox_of, shared=shared)

    def _sandbox_of(self, thread: str) -> ChannelSandbox:
        computer = self._computer()
        if computer is None:
            raise RuntimeError("the computer of these captures is gone")
        return computer.sandbox_of(thread)

    async def begin_turn(self, thread: str) -> str | None:
        return await (await self.made()).begin_turn(thread)

    async def after_step(self, thread: str) -> str | None:
        return await (await self.made()).after_step(thread)

    async def arrive(
        self, thread: str, ticket: str | None, is_held: Callable[[str], Awaitable[bool]]
    ) -> object:
        return await (await self.made()).arrive(thread, ticket, is_held)

    async def made(self) -> WorkspaceHistory:
        """Return the history."""
        # Imports and the working directory: not on an event loop.
        return await asyncio.to_thread(lambda: self.history)


def build_workspaces(settings: Settings) -> Database:
    """Return the database of the captures: a file, or Postgres if configured."""
    return PostgresDatabase(url) if (url := settings.postgres_url) else SqliteDatabase(WORKSPACES)
