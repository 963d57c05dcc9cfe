"""Captures the workspace of threads: before a person's turn, and after each step."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import islice
from typing import Final
from weakref import WeakValueDictionary

from libs.persistence import CheckpointerUnavailable
from libs.sandbox import FileFailed, RecordUnavailable, SandboxError
from libs.sandbox.host import Span, Turns, on_core
from libs.workspace import Captured, ManifestMissing, SnapshotsUnavailable, WorkspaceStore
from libs.workspace.history.capture_ledger import Ledger, thread_workspace
from libs.workspace.history.changed_by import CUT_OFF, by_thread
from libs.workspace.history.taken_back import TakenBack
from libs.workspace.history.tickets import NOTHING_RAN
from libs.workspace.history.workplace import Workplace

__all__ = ["TurnCaptures"]

logger = logging.getLogger(__name__)

_TRIES: Final = 3
"""Attempts to capture while a prune removes snapshots."""
_MOST_REMEMBERED: Final = 100_000
"""Paths after which those that were logged are forgotten."""
_MOST_TOLD: Final = 10
"""Paths that one line of the log names."""


class TurnCaptures:
    """Captures the workspace at the moments of a thread, each of which has a ticket.

    A ticket is kept before its capture begins, so that a checkpoint can hold it at once.
    """

    def __init__(
        self,
        store: WorkspaceStore,
        ledger: Ledger,
        sandbox_of: Callable[[str], Workplace],
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
        self.taken_back = TakenBack(ledger, sandbox_of)
        self._captured = captured
        self._waiting: defaultdict[str, list[str]] = defaultdict(list)
        """Thread -> tickets for a capture that has been asked for."""
        self._due: defaultdict[str, list[str]] = defaultdict(list)
        """Thread -> tickets for the capture before its next command."""
        self._unexplained: defaultdict[str, dict[str, str]] = defaultdict(dict)
        """Thread -> tickets, each with why it has no capture, which the ledger does not know yet."""
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Workspace -> held while a capture of it enters the ledger."""
        self._times: dict[str, dict[str, int]] = {}
        """Workspace -> when paths were changed whose capture is not in the ledger yet."""
        self._told: set[tuple[str, str, str]] = set()
        """Threads and paths that were logged as left out, with the reason."""

    @on_core
    async def begin_turn(self, thread: str) -> str:
        """Return a ticket for the workspace before a person's turn.

        The capture begins now if the sandbox runs, otherwise before the first command.
        """
        sandbox = self.sandbox_of(thread)
        turns = self._turns(sandbox)
        now = sandbox.running
        ticket = await self.ledger.open(thread, why=None if now else NOTHING_RAN, turn=True)
        if turns.is_due(thread):
            # An earlier turn ran no command: its tickets stay without a capture.
            self._due.pop(thread, None)
        if now:
            self._waiting[thread].append(ticket)
            turns.capture(thread, lambda: self._capture(thread))
        else:
            self._before_next(thread, [ticket])
        return ticket

    @on_core
    async def go_on(self, thread: str, ticket: str | None) -> None:
        """Continue a turn from a checkpoint, whose ticket is given. Another program may have begun the turn.

        If no command has run in the turn yet, its first command waits for the capture before it.
        """
        turns = self._turns(self.sandbox_of(thread))
        turns.watched = True
        if ticket and not turns.is_due(thread) and (tickets := await self.ledger.unused(thread, ticket)):
            self._before_next(thread, tickets)

    def _before_next(self, thread: str, tickets: list[str]) -> None:
        self._due[thread] += [ticket for ticket in tickets if ticket not in self._due[thread]]
        self.sandbox_of(thread).turns.before_next(thread, lambda: self._capture(thread))

    def _turns(self, sandbox: Workplace) -> Turns:
        sandbox.turns.look = self._look
        return sandbox.turns

    async def _look(self, thread: str) -> None:
        """Prepare a command of a thread. The command does not run if this fails."""
        try:
            left = self._unexplained.get(thread, {})
            for ticket, why in list(left.items()):
                await self.ledger.explain(thread, [ticket], why)
                left.pop(ticket, None)
            await self.taken_back.end_old_programs(thread)
        except CheckpointerUnavailable as error:
            raise RecordUnavailable(str(error), hint=error.hint) from error

    @on_core
    async def after_step(self, thread: str) -> str:
        """Return a ticket for the workspace after a step that may have changed it.

        The capture begins now. If no command has run in this turn, there is nothing to capture.
        """
        turns = self._turns(self.sandbox_of(thread))
        ran = not turns.is_due(thread)
        ticket = await self.ledger.open(thread, why=None if ran else NOTHING_RAN)
        (self._waiting if ran else self._due)[thread].append(ticket)
        if ran:
            turns.capture(thread, lambda: self._capture(thread))
        return ticket

    @on_core
    async def present(self, thread: str) -> str:
        """Capture the workspace as it is now, between two turns. Return the ticket.

        Raises:
            SandboxError, FileFailed, SnapshotsUnavailable, CheckpointerUnavailable: nothing was kept.
        """
        await self.settled(thread)
        ticket = await self.ledger.open(thread)
        async with self.one_at_a_time(thread) as workspace:
            await self.keep(thread, workspace, [ticket])
        return ticket

    @on_core
    async def settled(self, thread: str, *, most: float | None = None) -> None:
        """Wait until the captures of a thread have ended, at most `most` seconds."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.sandbox_of(thread).turns.settled(thread), most)

    async def _capture(self, thread: str) -> None:
        """Capture the workspace for the tickets that wait."""
        # Not those of the next command, if this capture was asked for before.
        first = [] if self.sandbox_of(thread).turns.is_due(thread) else self._due.pop(thread, [])
        tickets = [*self._waiting.pop(thread, ()), *first]
        try:
            if first:  # a command is about to run
                await self.ledger.explain(thread, first, None)
            async with self.one_at_a_time(thread) as workspace:
                captured = await self.keep(thread, workspace, tickets)
        except (SandboxError, FileFailed, SnapshotsUnavailable, CheckpointerUnavailable) as error:
            hint = getattr(error, "hint", "")
            logger.warning("The workspace of thread %s was not captured: %s %s", thread, error, hint)
            await self._explain(thread, tickets, str(error))
        except Exception as error:  # the ticket stays without a capture
            logger.exception("the workspace of thread %s was not captured", thread)
            await self._explain(thread, tickets, f"{type(error).__name__}: {error}")
        else:
            self._tell_skipped(thread, captured.skipped)

    async def _explain(self, thread: str, tickets: Collection[str], why: str) -> None:
        try:
            await self.ledger.explain(thread, tickets, why)
        except CheckpointerUnavailable:
            self._unexplained[thread] |= dict.fromkeys(tickets, why)

    def _tell_skipped(self, thread: str, skipped: Mapping[str, str]) -> None:
        """Log each path that captures leave out, once."""
        if len(self._told) > _MOST_REMEMBERED:
            self._told.clear()
        new = {path: why for path, why in skipped.items() if (thread, path, why) not in self._told}
        self._told.update((thread, path, why) for path, why in new.items())
        if new:
            listed = "; ".join(f"{path!r}: {why}" for path, why in islice(new.items(), _MOST_TOLD))
            more = f"; and {len(new) - _MOST_TOLD} more" if len(new) > _MOST_TOLD else ""
            logger.warning("Snapshots of thread %s leave out %s%s", thread, listed, more)

    @asynccontextmanager
    async def one_at_a_time(self, thread: str) -> AsyncIterator[str]:
        """Hold this around `keep` and a restore. Gives the name of the thread's workspace in the ledger."""
        root = self.sandbox_of(thread).root
        workspace = f"folder {root}" if self.shared else thread_workspace(thread)
        async with self._locks.setdefault(workspace, asyncio.Lock()):
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
        for _ in range(_TRIES):
            with suppress(ManifestMissing):  # a prune came between
                return await self._kept(thread, workspace, tickets, own)
        raise SnapshotsUnavailable(
            "Snapshots are removed all the time.", hint="The next step is captured again."
        )

    async def _kept(
        self, thread: str, workspace: str, tickets: Collection[str], own: Collection[str]
    ) -> Captured:
        sandbox = self.sandbox_of(thread)
        began = time.time_ns()
        captured = await self.store.acapture(sandbox)
        spans = list(sandbox.turns.spans)
        # Kept until the ledger has them: the next walk leaves out what has not changed since this one.
        times = self._times[workspace] = {**self._times.get(workspace, {}), **captured.times}
        latest = await self.ledger.latest(workspace)
        changes: dict[str, list[str]] = {}
        paths: set[str] = set()
        if latest and latest.manifest != captured.id:
            paths = set(await self.store.adifference(latest.manifest, captured.id)).difference(own)
        # In each capture: the end of a killed program is when this is first asked.
        others = await self._spans_of_others(sandbox, [times[path] for path in paths if path in times])
        if latest and latest.manifest != captured.id:
            restored = await self._restored_in_part(workspace, captured.id, paths)
            paths.difference_update(*restored.values())
            changes = await asyncio.to_thread(by_thread, paths, times, spans + others)
            for who, found in {**restored, thread: [*restored.get(thread, ()), *own]}.items():
                changes[who] = [*changes.get(who, ()), *found]
        await self.ledger.add(workspace, captured.id, changes, thread, tickets)
        sandbox.turns.forget_spans(spans, began)
        del self._times[workspace]
        if latest is None or latest.manifest != captured.id:
            self._captured()
        return captured

    async def _restored_in_part(
        self, workspace: str, captured: str, paths: Collection[str]
    ) -> dict[str, list[str]]:
        """Return changed paths that returns have brought back which were cut off, by the thread."""
        found: dict[str, list[str]] = {}
        for thread, target in await self.ledger.unfinished_restores(workspace) if self.shared else ():
            with suppress(ManifestMissing):  # removed meanwhile: the paths count as changed by others
                wanted = await self.store.amanifest(target)
                now = await self.store.amanifest(captured)
                found[thread] = [path for path in paths if now.holds_as(wanted, path)]
        return found

    async def _spans_of_others(self, sandbox: Workplace, times: Collection[int]) -> list[Span]:
        """Return the commands that other programs ran in the same workspace at some times or later."""
        if not (self.shared and sandbox.records):
            return []
        since = min(times, default=time.time_ns()) / 1e9 - 1
        found = await sandbox.records.of_other_programs(since)
        return [
            Span(
                CUT_OFF if thread is None else thread,
                int(began * 1e9),
                None if ended is None else int(ended * 1e9),
            )
            for thread, began, ended in found
        ]
