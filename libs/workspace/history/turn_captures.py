"""Captures the workspace of threads: before a person's turn, and after each step."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import islice
from typing import Final
from weakref import WeakValueDictionary

from libs.persistence import CheckpointerUnavailable
from libs.sandbox import FileFailed, RecordUnavailable, SandboxError, Tree
from libs.sandbox.host import ChannelSandbox, ChannelTree, Turns, on_core
from libs.workspace import ManifestMissing, SnapshotsUnavailable, WorkspaceStore
from libs.workspace.history.kept_capture import Kept
from libs.workspace.history.step_changes import StepChanges
from libs.workspace.history.taken_back import TakenBack
from libs.workspace.history.travels import FilesNotKept, Travels
from libs.workspace.history.workplace import Workplace
from libs.workspace.history.workspace_locks import WorkspaceLocks
from libs.workspace.ledger import NOTHING_RAN, ClaimLost, Ledger, thread_workspace

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
        travels: Travels | None = None,
    ) -> None:
        """Create the object.

        Args:
            sandbox_of: returns the sandbox of a thread.
            shared: whether all threads have one workspace.
            captured: called after each capture of changed files, on the core.
            travels: fills sandboxes that start empty: see `attach`. None: workspaces are on this machine.
        """
        self.store = store
        self.ledger = ledger
        self.sandbox_of = sandbox_of
        self.shared = shared
        self.travels = travels
        self.locks: WorkspaceLocks | None = None
        """Let one command at a time into a workspace. None: commands of several threads may run at once."""
        self.taken_back = TakenBack(ledger, sandbox_of)
        self._changes = StepChanges(store, ledger, shared=shared)
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

    def attach(self, thread: str, sandbox: ChannelSandbox) -> None:
        """Let the workspace of a thread travel. Its sandbox must not have been started."""
        assert self.travels is not None  # noqa: S101 - a mistake of the caller
        sandbox.fill = partial(self.travels.fill, thread)
        sandbox.keep = on_core(partial(self._keep_now, thread))
        sandbox.check = partial(self.travels.check, thread)
        sandbox.turns.watched = True
        # Whatever thread a call belongs to, such as a call of the page.
        sandbox.turns.look = lambda _: self._look(thread)

    async def _keep_now(self, thread: str) -> None:
        """Keep what has changed since the latest step, such as by a person or a background program."""
        try:
            async with self.one_at_a_time(thread) as workspace:
                await self.keep(thread, workspace, [])
        except (FileFailed, SnapshotsUnavailable, CheckpointerUnavailable) as error:
            raise FilesNotKept.because("The latest files of this thread were not kept", error) from error

    @on_core
    async def begin_turn(self, thread: str) -> str:
        """Return a ticket for the workspace before a person's turn.

        The capture begins now if the sandbox runs, otherwise before the first command.
        """
        sandbox = self.sandbox_of(thread)
        turns = self._turns(thread)
        if self.travels:
            self.travels.begins(thread)
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
        turns = self._turns(thread)
        turns.watched = True
        if ticket and not turns.is_due(thread) and (tickets := await self.ledger.unused(thread, ticket)):
            self._before_next(thread, tickets)

    def _before_next(self, thread: str, tickets: list[str]) -> None:
        self._due[thread] += [ticket for ticket in tickets if ticket not in self._due[thread]]
        self.sandbox_of(thread).turns.before_next(thread, lambda: self._capture(thread))

    def _turns(self, thread: str) -> Turns:
        turns = self.sandbox_of(thread).turns
        if self.travels is None:
            turns.look = self._look
        if self.locks:
            turns.alone = partial(self.locks.held, self.workspace_of(thread))
        return turns

    async def _look(self, thread: str) -> None:
        """Prepare a command of a thread. The command does not run if this fails."""
        try:
            left = self._unexplained.get(thread, {})
            for ticket, why in list(left.items()):
                await self.ledger.explain(thread, [ticket], why)
                left.pop(ticket, None)
            await self.taken_back.end_old_programs(thread)
            if self.travels:
                await self.travels.check(thread)
        except CheckpointerUnavailable as error:
            raise RecordUnavailable(str(error), hint=error.hint) from error

    @on_core
    async def after_step(self, thread: str) -> str:
        """Return a ticket for the workspace after a step that may have changed it.

        The capture begins now. If no command has run in this turn, there is nothing to capture. If the
        workspace travels, the capture has ended: `Travels.unkept` says what could not be kept.
        """
        turns = self._turns(thread)
        ran = not turns.is_due(thread)
        ticket = await self.ledger.open(thread, why=None if ran else NOTHING_RAN)
        (self._waiting if ran else self._due)[thread].append(ticket)
        if ran:
            capture = turns.capture(thread, lambda: self._capture(thread))
            if self.travels:
                await asyncio.wait({capture})
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
            elif self.travels:
                await self.travels.refuse_lost(thread)
            async with self.one_at_a_time(thread) as workspace:
                captured = await self.keep(thread, workspace, tickets)
        except (SandboxError, FileFailed, SnapshotsUnavailable, CheckpointerUnavailable) as error:
            hint = getattr(error, "hint", "")
            logger.warning("The workspace of thread %s was not captured: %s %s", thread, error, hint)
            await self._failed(thread, tickets, str(error))
        except Exception as error:  # the ticket stays without a capture
            logger.exception("the workspace of thread %s was not captured", thread)
            await self._failed(thread, tickets, f"{type(error).__name__}: {error}")
        else:
            self._tell_skipped(thread, captured.skipped)

    async def _failed(self, thread: str, tickets: Collection[str], why: str) -> None:
        if self.travels:
            self.travels.failed(thread, why)
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
        if self.travels:
            self.travels.kept(thread, new)

    def workspace_of(self, thread: str) -> str:
        """Return the name of the thread's workspace in the ledger."""
        return f"folder {self.sandbox_of(thread).root}" if self.shared else thread_workspace(thread)

    @asynccontextmanager
    async def one_at_a_time(self, thread: str) -> AsyncIterator[str]:
        """Hold this around `keep` and a restore. Gives the name of the thread's workspace in the ledger."""
        workspace = self.workspace_of(thread)
        async with self._locks.setdefault(workspace, asyncio.Lock()):
            yield workspace

    async def keep(
        self, thread: str, workspace: str, tickets: Collection[str], *, own: Collection[str] = ()
    ) -> Kept:
        """Capture the workspace of a thread now, and add the capture to the ledger.

        Args:
            workspace: given by `one_at_a_time`.
            tickets: tickets of the thread that the capture belongs to.
            own: paths that were changed for this thread, whatever the times of its commands.

        Raises:
            SandboxError, FileFailed, SnapshotsUnavailable, CheckpointerUnavailable: nothing was kept.
        """
        if self.travels and not self.sandbox_of(thread).running:
            self.travels.note_lost(thread)
            # A sandbox that starts now would be filled with the latest capture.
            if latest := await self.ledger.add_unchanged(workspace, thread, tickets):
                return Kept(latest.number, latest.manifest, {})
        for _ in range(_TRIES):
            with suppress(ManifestMissing):  # a prune came between
                return await self._kept(thread, workspace, tickets, own)
        raise SnapshotsUnavailable(
            "Snapshots are removed all the time.", hint="The next step is captured again."
        )

    async def _kept(
        self, thread: str, workspace: str, tickets: Collection[str], own: Collection[str]
    ) -> Kept:
        sandbox = self.sandbox_of(thread)
        began = time.time_ns()
        tree, claim = await self._held(thread)
        # Read meanwhile. An error of the ledger must not lose the times that the walk finds.
        reading = asyncio.ensure_future(self.ledger.latest(workspace))
        try:
            captured = await self.store.acapture(tree)
        finally:
            await asyncio.wait({reading})
        spans = list(sandbox.turns.spans)
        # Kept until the ledger has them: the next walk leaves out what has not changed since this one.
        times = self._times[workspace] = {**self._times.get(workspace, {}), **captured.times}
        latest = reading.result()
        captures = latest.manifest if latest else None, captured.id
        changes = await self._changes.by_thread(
            sandbox, workspace, captures, times=times, spans=spans, own={thread: own}
        )
        try:
            number = await self.ledger.add(workspace, captured.id, changes, thread, tickets, claim=claim)
        except ClaimLost:
            if self.travels and isinstance(tree, ChannelTree):
                await self.travels.end(thread, tree)
            raise
        sandbox.turns.forget_spans(spans, began)
        del self._times[workspace]
        if latest is None or latest.manifest != captured.id:
            self._captured()
        return Kept(number, captured.id, captured.skipped)

    async def tree(self, thread: str) -> Tree:
        """Return the workspace of a thread, to bring files back. Starts a sandbox that travels."""
        return (await self._held(thread))[0]

    async def _held(self, thread: str) -> tuple[Tree, int | None]:
        """Return the workspace of a thread's sandbox, and the generation of its claim if it travels."""
        return await self.travels.held(thread) if self.travels else (self.sandbox_of(thread), None)
