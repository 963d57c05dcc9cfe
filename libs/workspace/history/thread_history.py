"""Brings a thread's files back to an earlier moment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from libs.persistence import CheckpointerUnavailable
from libs.sandbox import SandboxError
from libs.sandbox.host import core, on_core
from libs.workspace import Difference, Manifest, Restored, SnapshotsUnavailable
from libs.workspace.history.changed_by import CUT_OFF
from libs.workspace.history.thread_places import WayBack
from libs.workspace.history.tickets import NOTHING_RAN, START, Ticket, made_at
from libs.workspace.history.turn_captures import TurnCaptures

__all__ = ["Moved", "NoCapture", "WorkspaceHistory"]


_WATCH_SECONDS: Final = 2.0
"""Longest time until a background program ends after another program has taken its thread back."""


_LOOK_SECONDS: Final = 0.1
_CAPTURE_LOOKS: Final = 50
"""Looks, one each _LOOK_SECONDS, whether another program has made a capture."""
_CAPTURE_SECONDS: Final = 60.0
"""Age at which a capture that was not made counts as lost with its program."""


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

    A ticket whose capture was not made stands for the latest capture before it.
    """

    def __init__(self, captures: TurnCaptures) -> None:
        self.captures = captures
        self._store = captures.store
        self._ledger = captures.ledger
        self._sandbox_of = captures.sandbox_of
        self._shared = captures.shared
        self._moves: dict[str, int] = {}
        """Thread -> how often it had gone back when this program last ran something in it."""
        self._watched: set[str] = set()
        """Threads whose background programs are watched."""

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
            NoCapture: one of them has no capture, or the capture has not ended yet.
        """
        for ticket in (before, after):
            if ticket and (at := await self._ledger.at(thread, ticket)) and at.number is None:
                raise NoCapture(
                    "The files of this turn are not kept, or not yet.", hint="Look again in a moment."
                )
        begin = await self.begin_of(thread, before, after)
        numbers = [(await self._found(thread, ticket))[0] for ticket in (begin, after)]
        if None in numbers:
            return Difference()  # no command of the thread has run
        first, last = [await self._manifest_id(number) for number in numbers if number is not None]
        return await self._store.adifference(first, last)

    async def begin_of(self, thread: str, before: str | None, after: str | None) -> str | None:
        """Return the ticket at the begin of a turn. For the arguments see `turn_difference`."""
        begin = after
        while begin and (earlier := await self._ledger.before(thread, begin)) not in (before or START, START):
            begin = earlier
        return begin

    async def way_back(self, thread: str) -> WayBack | None:
        """Return where a thread was before it went back."""
        return await self._ledger.way_back(thread)

    async def add_way_back(self, thread: str, way: WayBack) -> None:
        """Keep where a thread was before it went back."""
        await self._ledger.add_way_back(thread, way)

    async def end_way_back(self, thread: str, since: str) -> None:
        """Forget where the thread was before it went back: it has returned, to the checkpoint `since`."""
        await self._ledger.end_way_back(thread, since)

    async def stays_at(self, thread: str, ticket: str | None) -> None:
        """Note that the conversation of a thread stays at a ticket, although its files were brought back."""
        await self._ledger.set_head(thread, ticket or START)

    @on_core
    async def arrive(
        self, thread: str, ticket: str | None, is_held: Callable[[str], Awaitable[bool]]
    ) -> Moved | None:
        """Bring back the files if a run starts from an earlier checkpoint than the thread has reached.

        LangGraph's own ways to go back (a fork in Studio, a run with `checkpoint_id`) move the conversation
        only. A way back that was cut off is undone, or finished if the conversation has moved. Return None if
        the files belong to the checkpoint, or to a run that was cut off after it.

        Args:
            ticket: the ticket in the state of the checkpoint.
            is_held: returns whether a checkpoint of the thread holds a ticket.
        """
        await self._end_if_moved(thread)
        moved = await self._moved_to(thread, ticket, is_held)
        await self.captures.go_on(thread, ticket)
        return moved

    async def _moved_to(
        self, thread: str, ticket: str | None, is_held: Callable[[str], Awaitable[bool]]
    ) -> Moved | None:
        wanted = ticket or START

        async def belongs(at: str) -> bool:
            # Tickets that no checkpoint holds belong to steps that were cut off.
            while at not in (wanted, START) and not await is_held(at):
                at = await self._ledger.before(thread, at)
            return at == wanted

        if unfinished := await self._ledger.unfinished_move(thread):
            back = unfinished.before if await belongs(unfinished.wanted) else ticket
            return await self.go_back(thread, back)
        at = await self._ledger.head(thread)
        return None if at is None or await belongs(at) else await self.go_back(thread, ticket)

    @on_core
    async def watch(self, thread: str) -> None:
        """End what a step left running soon after another program has taken the thread back.

        Call this after each step.
        """
        sandbox = self._sandbox_of(thread)

        async def watch() -> None:
            try:
                while sandbox.has_background(thread):
                    await asyncio.sleep(_WATCH_SECONDS)
                    with suppress(CheckpointerUnavailable, SandboxError):
                        await self._end_if_moved(thread)
            finally:
                self._watched.discard(thread)

        if thread not in self._watched and sandbox.has_background(thread):
            self._watched.add(thread)
            core().spawn(watch())

    async def _end_if_moved(self, thread: str) -> None:
        """End the programs of a thread that another program has taken back meanwhile."""
        moves = await self._ledger.moves(thread)
        if self._moves.setdefault(thread, moves) != moves:
            self._moves[thread] = moves
            await self._sandbox_of(thread).aend_programs(thread)

    @on_core
    async def go_back(
        self, thread: str, ticket: str | None, *, dry_run: bool = False, more_follows: bool = False
    ) -> Moved:
        """Bring the files of a thread back to a ticket; None: to before its first turn.

        In a workspace of all threads, a path is touched only if it has changed only while commands of this
        thread ran, and still holds what they left. The thread's background programs and live interpreters
        end, those in the sandbox of another program before its next run: see `arrive`.

        Args:
            more_follows: the conversation is moved next. Until `ends_move`, the next `arrive` undoes or
                finishes the move.

        Raises:
            NoCapture: there is no capture up to this ticket. Nothing was changed.
        """
        await self.captures.settled(thread)
        number, instead = await self._found(thread, ticket)
        if dry_run:
            restored = await self._dry_run(thread, number)
            return Moved(restored, "", "", instead)
        if number is None:
            return await self._unmoved(thread, ticket)
        target = await self._manifest_id(number)
        sandbox = self._sandbox_of(thread)
        # First: what still runs could change a file while it is brought back.
        await sandbox.aend_programs(thread)
        before = await self._ledger.open(thread)
        async with self.captures.one_at_a_time(thread) as workspace:
            now = (await self.captures.keep(thread, workspace, [before])).id
            only, foreign = await self._own_paths(thread, workspace, number, target, now)
            await self._ledger.begin_move(thread, before, workspace, target)
            restored = await self._store.arestore(sandbox, target, only=only, expect=now)
            after = await self._ledger.open(thread)
            await self.captures.keep(thread, workspace, [after], own=list(restored.difference))
            await self._ledger.set_head(thread, ticket or START, moved=True)
        self._moves[thread] = await self._ledger.moves(thread)
        if sandbox.records:
            # What is pending at this point runs again.
            began = made_at(ticket).timestamp() if ticket else 0.0
            await sandbox.records.forget_since(thread, began)
        if not more_follows:
            await self._ledger.end_move(thread)
        return Moved(_naming(restored, foreign), after, before, instead)

    async def has_unfinished_move(self, thread: str) -> bool:
        """Return whether a way back of a thread was cut off: `arrive` undoes or finishes the move."""
        return await self._ledger.unfinished_move(thread) is not None

    async def ends_move(self, thread: str) -> None:
        """Note that the conversation of a thread has moved, too: see `go_back`."""
        await self._ledger.end_move(thread)

    async def _dry_run(self, thread: str, number: int | None) -> Restored:
        if number is None:
            return Restored("", Difference(), {})
        target = await self._manifest_id(number)
        async with self.captures.one_at_a_time(thread) as workspace:
            now = (await self.captures.keep(thread, workspace, [])).id
            only, foreign = await self._own_paths(thread, workspace, number, target, now)
            restored = await self._store.arestore(
                self._sandbox_of(thread), target, only=only, expect=now, dry_run=True
            )
        return _naming(restored, foreign)

    async def _unmoved(self, thread: str, ticket: str | None) -> Moved:
        """Go back in a thread in which no command has run yet: its files are as they were."""
        before = await self._ledger.open(thread, why=NOTHING_RAN)
        await self._ledger.set_head(thread, ticket or START)
        return Moved(Restored("", Difference(), {}), before, before, None)

    async def _found(self, thread: str, ticket: str | None) -> tuple[int | None, str | None]:
        """Return the capture of a ticket, and why it is an earlier one than asked for.

        No capture means that no command of the thread has run yet.
        """
        if ticket is not None and not await self._ledger.knows(thread, ticket):
            raise NoCapture(
                "The snapshot of this point is not kept any more.", hint="Later turns can be gone back to."
            )
        at = await self._ended(thread, ticket)
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
                hint="The turn is older than the first snapshot of the thread.",
            )
        why = at.why or "the program ended before the snapshot was complete"
        return kept.number, f"the snapshot of this point is missing ({why}), so the one before it was used"

    async def _ended(self, thread: str, ticket: str | None) -> Ticket | None:
        """Return the ticket that stands for `ticket`. Waits for a capture that another program is making."""
        for _ in range(_CAPTURE_LOOKS):
            at = await self._ledger.at(thread, ticket)
            if at is None or at.number is not None or at.why is not None or _age(at.id) > _CAPTURE_SECONDS:
                break
            await asyncio.sleep(_LOOK_SECONDS)
        return at

    async def _manifest_id(self, number: int) -> str:
        row = await self._ledger.row(number)
        if row is None:
            raise NoCapture(
                "The snapshot of this point was removed.", hint="Raise SNAPSHOTS_MAX to keep more snapshots."
            )
        return row.manifest

    async def _own_paths(
        self, thread: str, workspace: str, number: int, target: str, now: str
    ) -> tuple[set[str] | None, dict[str, str]]:
        """Return the paths to touch, None for all, and the others with the reason.

        In a workspace of all threads: the paths that only this thread has changed since a capture.
        """
        if not self._shared:
            return None, {}
        own: set[str] = set()
        foreign: set[str] = set()
        cut_off: set[str] = set()
        for row in await self._ledger.since(workspace, number):
            for who, paths in row.changes.items():
                (own if who == thread else cut_off if who == CUT_OFF else foreign).update(paths)
        differing = set(await self._store.adifference(now, target))
        kept = dict.fromkeys(sorted(differing - own), "it was changed by somebody else")
        kept |= dict.fromkeys(sorted(differing & foreign & own), "somebody else has changed it, too")
        kept |= dict.fromkeys(
            sorted((differing & cut_off) - foreign),
            "it was changed during or after a command that was cut off, perhaps by somebody else",
        )
        return own - foreign - cut_off, kept


def _age(ticket: str) -> float:
    return (datetime.now(UTC) - made_at(ticket)).total_seconds()


def _naming(restored: Restored, foreign: dict[str, str]) -> Restored:
    return Restored(restored.before, restored.difference, {**foreign, **restored.kept})
