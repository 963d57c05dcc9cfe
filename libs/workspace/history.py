"""Captures the workspace of threads at the right moments, and brings a thread's files back to one of them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass

from libs.persistence import CheckpointerUnavailable
from libs.sandbox import FileFailed, SandboxError
from libs.sandbox.host import ChannelSandbox, on_core
from libs.workspace.catalog import ManifestMissing
from libs.workspace.changed_by import by_thread
from libs.workspace.contents import SnapshotsUnavailable
from libs.workspace.capture_ledger import Ledger, WayBack, thread_workspace
from libs.workspace.manifest import Difference, Manifest
from libs.workspace.store import Captured, Restored, WorkspaceStore
from libs.workspace.tickets import NOTHING_RAN, START, made_at

__all__ = ["Moved", "NoCapture", "WorkspaceHistory"]

logger = logging.getLogger(__name__)


class NoCapture(SnapshotsUnavailable):
    """There is no capture of a thread to go back to."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A thread's files after going back."""

    restored: Restored
    ticket: str
    """Names the files as they are now."""
    before: str
    """Names the files as they were."""
    instead: str | None
    """Why an earlier capture than the one that was asked for was used. None: it is the one."""


class WorkspaceHistory:
    """Knows which capture belongs to which moment of a thread.

    A ticket names a moment. It is kept before its capture begins, so that a checkpoint can hold it at once.
    A ticket whose capture was not made stands for the latest capture before it.
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
        self._store = store
        self._ledger = ledger
        self._sandbox_of = sandbox_of
        self._shared = shared
        self._captured = captured
        self._waiting: defaultdict[str, list[str]] = defaultdict(list)
        """Thread -> tickets for its next capture."""
        self._moves: dict[str, int] = {}
        """Thread -> how often it had gone back when this program last ran something in it."""
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """Workspace -> held while a capture of it enters the ledger."""

    # -- captures

    @on_core
    async def begin_turn(self, thread: str) -> str:
        """Return a ticket for the workspace before a person's turn.

        The capture begins now if the sandbox runs, otherwise before the first command.
        """
        sandbox = self._sandbox_of(thread)
        now = sandbox.running
        ticket = await self._ledger.open(thread, why=None if now else NOTHING_RAN, turn=True)
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
        turns = self._sandbox_of(thread).turns
        ran = not turns.is_due(thread)
        ticket = await self._ledger.open(thread, why=None if ran else NOTHING_RAN)
        self._waiting[thread].append(ticket)
        if ran:
            turns.capture(thread, lambda: self._capture(thread))
        return ticket

    @on_core
    async def settled(self, thread: str) -> None:
        """Wait until the captures of a thread have ended."""
        await self._sandbox_of(thread).turns.settled(thread)

    async def _capture(self, thread: str) -> None:
        tickets = self._waiting.pop(thread, [])
        try:
            await self._kept(thread, tickets)
        except (SandboxError, FileFailed, SnapshotsUnavailable, CheckpointerUnavailable) as error:
            hint = getattr(error, "hint", "")
            logger.warning("The workspace of thread %s was not captured: %s %s", thread, error, hint)
            with suppress(CheckpointerUnavailable):  # an open ticket is as good as a failed one
                await self._ledger.fail(thread, tickets, str(error))
        except Exception:  # the ticket stays without a capture
            logger.exception("the workspace of thread %s was not captured", thread)

    async def _kept(self, thread: str, tickets: Collection[str]) -> Captured:
        """Capture the workspace of a thread now, and add the capture to the ledger."""
        sandbox = self._sandbox_of(thread)
        workspace = self._workspace(thread, sandbox)
        async with self._locks[workspace]:
            return await self._kept_locked(thread, workspace, tickets)

    async def _kept_locked(
        self, thread: str, workspace: str, tickets: Collection[str], *, own: Collection[str] = ()
    ) -> Captured:
        """As `_kept`, for a caller that holds the lock. `own`: paths that were changed for this thread."""
        sandbox = self._sandbox_of(thread)
        began = time.time_ns()
        captured = await self._store.acapture(sandbox)
        spans = sandbox.turns.take_spans(began)
        latest = await self._ledger.latest(workspace)
        changes: dict[str, list[str]] = {}
        if latest and latest.manifest != captured.id:
            difference = await self._store.adifference(latest.manifest, captured.id)
            changes = by_thread(set(difference).difference(own), captured.times, spans)
            changes[thread] = [*changes.get(thread, ()), *own]
        try:
            await self._ledger.add(workspace, captured.id, changes, thread, tickets)
        except ManifestMissing:
            captured = await self._store.acapture(sandbox)  # a prune came between
            await self._ledger.add(workspace, captured.id, changes, thread, tickets)
        if latest is None or latest.manifest != captured.id:
            self._captured()
        return captured

    def _workspace(self, thread: str, sandbox: ChannelSandbox) -> str:
        return f"folder {sandbox.root}" if self._shared else thread_workspace(thread)

    # -- going back

    @on_core
    async def manifest_at(self, thread: str, ticket: str | None) -> Manifest:
        """Return the files of a thread at a ticket; None: before its first turn.

        Raises:
            NoCapture: there is no capture up to this ticket.
        """
        number, _ = await self._found(thread, ticket)
        if number is None:
            raise NoCapture("No command has run in this thread yet.", hint="Its files are as they are now.")
        return await self._store.amanifest(await self._manifest_id(number))

    @on_core
    async def turn_difference(self, thread: str, before: str | None, after: str | None) -> Difference:
        """Return what a turn has changed, without what changed between the turns.

        Args:
            before: the ticket at the end of the turn before; None for the first turn.
            after: the ticket at the end of the turn.

        Raises:
            NoCapture: one of them has no capture.
        """
        begin = after
        while begin and (earlier := await self._ledger.before(thread, begin)) not in (before or START, START):
            begin = earlier
        numbers = [(await self._found(thread, ticket))[0] for ticket in (begin, after)]
        if None in numbers:
            return Difference()  # no command of the thread has run
        first, last = [await self._manifest_id(number) for number in numbers if number is not None]
        return await self._store.adifference(first, last)

    async def way_back(self, thread: str) -> WayBack | None:
        """Return where a thread was before it went back."""
        return await self._ledger.way_back(thread)

    async def keep_way_back(self, thread: str, way: WayBack | None) -> None:
        """Keep where a thread was before it went back, or forget it."""
        await self._ledger.keep_way_back(thread, way)

    async def stays_at(self, thread: str, ticket: str | None) -> None:
        """Note that the files of a thread belong to a ticket, although they were brought back further."""
        await self._ledger.set_head(thread, ticket or START)

    @on_core
    async def arrive(
        self, thread: str, ticket: str | None, is_held: Callable[[str], Awaitable[bool]]
    ) -> Moved | None:
        """Bring back the files if a run starts from an earlier checkpoint than the thread has reached.

        LangGraph's own ways to go back (a fork in Studio, a run with `checkpoint_id`) move the conversation
        only. Return None if the files belong to the checkpoint, or to a run that was cut off after it.

        Args:
            ticket: the ticket in the state of the checkpoint.
            is_held: returns whether a checkpoint of the thread holds a ticket.
        """
        await self._end_if_moved(thread)
        wanted = ticket or START
        at = await self._ledger.head(thread)
        if at is None:
            return None
        # Tickets that no checkpoint holds belong to steps that were cut off.
        while at not in (wanted, START) and not await is_held(at):
            at = await self._ledger.before(thread, at)
        return None if at == wanted else await self.go_back(thread, ticket)

    async def _end_if_moved(self, thread: str) -> None:
        """End the programs of a thread that another program has taken back meanwhile."""
        moves = await self._ledger.moves(thread)
        if self._moves.setdefault(thread, moves) != moves:
            self._moves[thread] = moves
            await self._sandbox_of(thread).aend_programs(thread)

    @on_core
    async def go_back(self, thread: str, ticket: str | None, *, dry_run: bool = False) -> Moved:
        """Bring the files of a thread back to a ticket; None: to before its first turn.

        In a workspace of all threads, a path is touched only if it has changed only while commands of this
        thread ran, and still holds what they left.

        Raises:
            NoCapture: there is no capture up to this ticket. Nothing was changed.
        """
        number, instead = await self._found(thread, ticket)
        if number is None:
            return await self._unmoved(thread, ticket, dry_run=dry_run)
        target = await self._manifest_id(number)
        await self.settled(thread)
        sandbox = self._sandbox_of(thread)
        workspace = self._workspace(thread, sandbox)
        before = after = await self._ledger.open(thread)
        async with self._locks[workspace]:
            now = await self._kept_locked(thread, workspace, [before])
            only: set[str] | None = None
            foreign: dict[str, str] = {}
            if self._shared:
                only, foreign = await self._own_paths(thread, workspace, number, target, now.id)
            restored = await self._store.arestore(sandbox, target, only=only, expect=now.id, dry_run=dry_run)
            if not dry_run:
                await sandbox.aend_programs(thread)
                after = await self._ledger.open(thread)
                await self._kept_locked(thread, workspace, [after], own=list(restored.difference))
                await self._ledger.set_head(thread, ticket or START, moved=True)
                self._moves[thread] = await self._ledger.moves(thread)
                if sandbox.records:
                    # What is pending at this point runs again.
                    began = made_at(ticket).timestamp() if ticket else 0.0
                    await sandbox.records.forget_since(thread, began)
        restored = Restored(restored.before, restored.difference, {**foreign, **restored.kept})
        return Moved(restored, after, before, instead)

    async def _unmoved(self, thread: str, ticket: str | None, *, dry_run: bool) -> Moved:
        """Go back in a thread in which no command has run yet: its files are as they were."""
        before = await self._ledger.open(thread, why=NOTHING_RAN)
        if not dry_run:
            await self._ledger.set_head(thread, ticket or START)
        return Moved(Restored("", Difference(), {}), before, before, None)

    async def _found(self, thread: str, ticket: str | None) -> tuple[int | None, str | None]:
        """Return the capture of a ticket, and why it is an earlier one than asked for.

        No capture means that no command of the thread has run yet.
        """
        at = await self._ledger.at(thread, ticket)
        if at is None and await self._ledger.head(thread) is not None:
            # Until its first command, a thread has changed nothing: the capture before that command fits.
            ticket = None
            at = await self._ledger.at(thread, None)
            if at is None:
                return None, None
        if at and at.number is not None:
            return at.number, None
        kept = await self._ledger.kept_until(thread, ticket) if ticket is not None else None
        if at is None or kept is None:
            raise NoCapture(
                "There is no snapshot of the files at this point.",
                hint="Only turns since snapshots are kept can be gone back to.",
            )
        why = at.why or "the program ended before the snapshot was complete"
        return kept.number, f"the snapshot of this point is missing ({why}), so the one before it was used"

    async def _manifest_id(self, number: int) -> str:
        row = await self._ledger.row(number)
        if row is None:
            raise NoCapture(
                "The snapshot of this point was removed.", hint="Raise SNAPSHOTS_MAX to keep more snapshots."
            )
        return row.manifest

    async def _own_paths(
        self, thread: str, workspace: str, number: int, target: str, now: str
    ) -> tuple[set[str], dict[str, str]]:
        """Return the paths that only this thread changed since a capture, and the others with the reason."""
        own: set[str] = set()
        foreign: set[str] = set()
        for row in await self._ledger.since(workspace, number):
            for who, paths in row.changes.items():
                (own if who == thread else foreign).update(paths)
        differing = set(await self._store.adifference(now, target))
        kept = dict.fromkeys(sorted(differing & foreign & own), "somebody else has changed it, too")
        kept |= dict.fromkeys(sorted(differing - own), "it was changed by somebody else")
        return own - foreign, kept
