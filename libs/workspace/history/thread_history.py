"""Brings a thread's files back to an earlier moment."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from libs.sandbox.host import on_core
from libs.workspace import Difference, Manifest, ManifestMissing, Restored
from libs.workspace.history.call_effects import Effect, named
from libs.workspace.history.changed_by import of_one_thread
from libs.workspace.history.thread_files import NoCapture, ThreadFiles
from libs.workspace.history.turn_captures import TurnCaptures
from libs.workspace.ledger import NOTHING_RAN, START, Row, made_at

__all__ = ["Moved", "WorkspaceHistory"]


@dataclass(frozen=True, slots=True)
class Moved:
    """A thread's files after going back."""

    restored: Restored
    before: str
    """Names the files as they were."""
    instead: str | None
    """Why an earlier capture than the one that was asked for was used. None: it is the one."""

    @property
    def copy_note(self) -> str | None:
        """Why a copy with these files is not the same as the original. None: it is."""
        kept = self.restored.kept
        lacks = f"the copy lacks {named(kept)}" if kept else None
        return "; ".join(filter(None, (self.instead, lacks))) or None


class WorkspaceHistory:
    """Moves the files of threads. The conversation is moved by the caller."""

    def __init__(self, captures: TurnCaptures) -> None:
        self.captures = captures
        self._store = captures.store
        self.ledger = captures.ledger
        self.files = ThreadFiles(captures.store, captures.ledger)
        self._sandbox_of = captures.sandbox_of
        self._shared = captures.shared

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
        await self.captures.taken_back.end_old_programs(thread)
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
                at = await self.ledger.before(thread, at)
            return at == wanted

        if unfinished := await self.ledger.unfinished_move(thread):
            back = unfinished.before if await belongs(unfinished.wanted) else ticket
            return await self.go_back(thread, back)
        at = await self.ledger.head(thread)
        return None if at is None or await belongs(at) else await self.go_back(thread, ticket)

    @on_core
    async def around_call(self, thread: str, key: str) -> tuple[Manifest, Manifest]:
        """Return the files before and after a call that has run at once (see `EffectRuns`).

        Raises:
            NoCapture: no such call is known, or not any more.
            ManifestMissing: the captures were removed.
        """
        records = self._sandbox_of(thread).records
        kept = await records.awaited(records.noted, thread, f"{key}#effect") if records else None
        if kept is None:
            raise NoCapture("This call is not known.", hint="Reload the page.")
        effect = Effect.read(kept)
        return await self._store.amanifest(effect.before), await self._store.amanifest(effect.after)

    @on_core
    async def go_back(
        self, thread: str, ticket: str | None, *, dry_run: bool = False, more_follows: bool = False
    ) -> Moved:
        """Bring the files of a thread back to a ticket; None: to before its first turn.

        In a workspace of all threads, a path is touched only if it has changed only while commands of this
        thread ran, and still holds what they left. The thread's background programs and live interpreters
        end, those in the sandbox of another program before its next command: see `TakenBack`.

        Args:
            more_follows: the conversation is moved next. Until `Ledger.end_move`, the next `arrive` undoes or
                finishes the move.

        Raises:
            NoCapture: there is no capture up to this ticket. Nothing was changed.
        """
        await self.captures.settled(thread)
        number, instead = await self.files.capture_at(thread, ticket)
        if dry_run:
            restored = await self._dry_run(thread, number)
            return Moved(restored, "", instead)
        if number is None:
            return await self._unmoved(thread, ticket)
        target = await self.files.manifest_id(number)
        sandbox = self._sandbox_of(thread)
        # First: what still runs could change a file while it is brought back.
        await sandbox.aend_programs(thread)
        before = await self.ledger.open(thread)
        async with self.captures.one_at_a_time(thread) as workspace:
            now = (await self.captures.keep(thread, workspace, [before])).id
            only, foreign = await self._own_paths(thread, workspace, number, target, now)
            await self.ledger.begin_move(thread, before, workspace, target)
            tree = await self.captures.tree(thread)
            restored = await self._store.arestore(tree, target, only=only, expect=now)
            after = await self.ledger.open(thread)
            await self.captures.keep(thread, workspace, [after], own=list(restored.difference))
            await self.ledger.set_head(thread, ticket, moved=True)
        await self.captures.taken_back.moved_here(thread)
        if sandbox.records:
            # What is pending at this point runs again.
            began = made_at(ticket).timestamp() if ticket else 0.0
            await sandbox.records.forget_since(thread, began)
        if not more_follows:
            await self.ledger.end_move(thread)
        return Moved(_naming(restored, foreign), before, instead)

    async def _dry_run(self, thread: str, number: int | None) -> Restored:
        if number is None:
            return Restored(Difference(), {})
        target = await self.files.manifest_id(number)
        async with self.captures.one_at_a_time(thread) as workspace:
            now = (await self.captures.keep(thread, workspace, [])).id
            only, foreign = await self._own_paths(thread, workspace, number, target, now)
            tree = await self.captures.tree(thread)
            restored = await self._store.arestore(tree, target, only=only, expect=now, dry_run=True)
        return _naming(restored, foreign)

    async def _unmoved(self, thread: str, ticket: str | None) -> Moved:
        """Go back in a thread in which no command has run yet: its files are as they were."""
        before = await self.ledger.open(thread, why=NOTHING_RAN)
        await self.ledger.set_head(thread, ticket)
        return Moved(Restored(Difference(), {}), before, None)

    async def _own_paths(
        self, thread: str, workspace: str, number: int, target: str, now: str
    ) -> tuple[set[str] | None, dict[str, str]]:
        """Return the paths to touch, None for all, and the others with the reason.

        In a workspace of all threads: the paths that only this thread has changed since a capture.
        """
        if not self._shared:
            return None, {}
        rows = await self.ledger.since(workspace, number)
        own, foreign = of_one_thread(thread, rows, set(await self._store.adifference(now, target)))
        held = await self._store.amanifest(now)
        special = own & held.skipped.keys() - held.entries.keys()
        for path in special - await self._there_when_changed(rows, special):
            own.discard(path)
            foreign[path] = f"somebody else may have put it there: {held.skipped[path]}"
        return own, foreign

    async def _there_when_changed(self, rows: Sequence[Row], special: set[str]) -> set[str]:
        """Return the FIFOs, sockets and devices that were there when their paths were last seen changed.

        Captures do not hold them, so one that was put in the place of a removed file later is no change.
        """
        changed: dict[str, set[str]] = {}
        """Capture -> paths whose last change it shows."""
        later: set[str] = set()
        for row in reversed(rows):
            here = special & {path for paths in row.changes.values() for path in paths} - later
            if here:
                changed.setdefault(row.manifest, set()).update(here)
                later |= here
        there: set[str] = set()
        for manifest, paths in changed.items():
            with suppress(ManifestMissing):
                there |= paths & (await self._store.amanifest(manifest)).skipped.keys()
        return there


def _naming(restored: Restored, foreign: dict[str, str]) -> Restored:
    return replace(restored, kept={**foreign, **restored.kept})
