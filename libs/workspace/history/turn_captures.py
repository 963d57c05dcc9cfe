"""Captures the workspace of threads: before a person's turn, and after each step."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress

from libs.persistence import CheckpointerUnavailable
from libs.sandbox import FileFailed, SandboxError
from libs.sandbox.host import ChannelSandbox, on_core
from libs.workspace import Captured, ManifestMissing, SnapshotsUnavailable, WorkspaceStore
from libs.workspace.history.capture_ledger import Ledger, thread_workspace
from libs.workspace.history.changed_by import by_thread
from libs.workspace.history.tickets import NOTHING_RAN

__all__ = ["TurnCaptures"]

logger = logging.getLogger(__name__)


class TurnCaptures:
    """Captures the workspace at the moments of a thread, each of which has a ticket.

    A ticket is kept before its capture begins, so that a checkpoint can hold it at once.
    """

    def __init__(
        self,
        store: WorkspaceStore,
        ledger: Ledger,
        sandbox_of: Callable[[str], ChannelSandbox],
        *,
        shared: bool,
        captured: Callable[[], None] = lambda: None,
    ) -> None:
        """Create the object.

        Args:
            sandbox_of: returns the sandbox of a thread.
            shared: whether all threads have one workspace.
            captured: called after each capture of changed files, on the core.
        """
        self.store = store
        self.ledger = ledger
        self.sandbox_of = sandbox_of
        self.shared = shared
        self._captured = captured
        self._waiting: defaultdict[str, list[str]] = defaultdict(list)
        """Thread -> tickets for its next capture."""
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """Workspace -> held while a capture of it enters the ledger."""

    @on_core
    async def begin_turn(self, thread: str) -> str:
        """Return a ticket for the workspace before a person's turn.

        The capture begins now if the sandbox runs, otherwise before the first command.
        """
        sandbox = self.sandbox_of(thread)
        now = sandbox.running
        ticket = await self.ledger.open(thread, why=None if now else NOTHING_RAN, turn=True)
        if now:
            self._waiting[thread].append(ticket)
            sandbox.turns.capture(thread, lambda: self._capture(thread))
        else:
            # No command has used the ticket of an earlier turn that still waits: it stays without a capture.
            self._waiting[thread] = [ticket]
            sandbox.turns.before_next(thread, lambda: self._capture(thread))
        return ticket

    @on_core
    async def after_step(self, thread: str) -> str:
        """Return a ticket for the workspace after a step that may have changed it.

        The capture begins now. If no command has run in this turn, there is nothing to capture.
        """
        turns = self.sandbox_of(thread).turns
        ran = not turns.is_due(thread)
        ticket = await self.ledger.open(thread, why=None if ran else NOTHING_RAN)
        self._waiting[thread].append(ticket)
        if ran:
            turns.capture(thread, lambda: self._capture(thread))
        return ticket

    @on_core
    async def settled(self, thread: str) -> None:
        """Wait until the captures of a thread have ended."""
        await self.sandbox_of(thread).turns.settled(thread)

    async def _capture(self, thread: str) -> None:
        tickets = self._waiting.pop(thread, [])
        try:
            async with self.one_at_a_time(thread) as workspace:
                await self.keep(thread, workspace, tickets)
        except (SandboxError, FileFailed, SnapshotsUnavailable, CheckpointerUnavailable) as error:
            hint = getattr(error, "hint", "")
            logger.warning("The workspace of thread %s was not captured: %s %s", thread, error, hint)
            with suppress(CheckpointerUnavailable):  # an open ticket is as good as a failed one
                await self.ledger.fail(thread, tickets, str(error))
        except Exception:  # the ticket stays without a capture
            logger.exception("the workspace of thread %s was not captured", thread)

    @asynccontextmanager
    async def one_at_a_time(self, thread: str) -> AsyncIterator[str]:
        """Hold this around `keep` and a restore. Gives the name of the thread's workspace in the ledger."""
        root = self.sandbox_of(thread).root
        workspace = f"folder {root}" if self.shared else thread_workspace(thread)
        async with self._locks[workspace]:
            yield workspace

    async def keep(
        self, thread: str, workspace: str, tickets: Collection[str], *, own: Collection[str] = ()
    ) -> Captured:
        """Capture the workspace of a thread now, and add the capture to the ledger.

        Args:
            workspace: given by `one_at_a_time`.
            tickets: tickets of the thread that the capture belongs to.
            own: paths that were changed for this thread, whatever the times of its commands.

        Raises:
            SandboxError, FileFailed, SnapshotsUnavailable, CheckpointerUnavailable: nothing was kept.
        """
        sandbox = self.sandbox_of(thread)
        began = time.time_ns()
        captured = await self.store.acapture(sandbox)
        spans = sandbox.turns.take_spans(began)
        latest = await self.ledger.latest(workspace)
        changes: dict[str, list[str]] = {}
        if latest and latest.manifest != captured.id:
            difference = await self.store.adifference(latest.manifest, captured.id)
            changes = by_thread(set(difference).difference(own), captured.times, spans)
            changes[thread] = [*changes.get(thread, ()), *own]
        try:
            await self.ledger.add(workspace, captured.id, changes, thread, tickets)
        except ManifestMissing:
            captured = await self.store.acapture(sandbox)  # a prune came between
            await self.ledger.add(workspace, captured.id, changes, thread, tickets)
        if latest is None or latest.manifest != captured.id:
            self._captured()
        return captured
