"""Finds the files that a thread had at a ticket, and what changed between two tickets."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from libs.sandbox.host import on_core
from libs.workspace import Difference, Manifest, SnapshotsUnavailable, WorkspaceStore
from libs.workspace.ledger import START, Ledger, Ticket, made_at, thread_workspace

__all__ = ["NoCapture", "ThreadFiles", "TurnChange"]

_LOOK_SECONDS: Final = 0.1
_CAPTURE_LOOKS: Final = 50
"""Looks, one each _LOOK_SECONDS, whether another program has made a capture."""
_CAPTURE_SECONDS: Final = 60.0
"""Age at which a capture that was not made counts as lost with its program."""


class NoCapture(SnapshotsUnavailable):
    """There is no capture of a thread to go back to."""


@dataclass(frozen=True, slots=True)
class TurnChange:
    """What a turn has changed."""

    difference: Difference = field(default_factory=Difference)
    not_kept: Mapping[str, str] = field(default_factory=dict)
    """Paths of the turn that its snapshot leaves out, such as a file over SNAPSHOT_FILE_MAX, each with the
    reason."""


class ThreadFiles:
    """Knows which capture belongs to which moment of a thread.

    A ticket whose capture was not made stands for the latest capture before it.
    """

    def __init__(self, store: WorkspaceStore, ledger: Ledger) -> None:
        self._store = store
        self._ledger = ledger

    @on_core
    async def at(self, thread: str, ticket: str | None) -> Manifest:
        """Return the files of a thread at a ticket; None: before its first turn.

        Raises:
            NoCapture: there is no capture up to this ticket.
        """
        number, _ = await self.capture_at(thread, ticket)
        if number is None:
            raise NoCapture("No command has run in this thread yet.", hint="Its files are as they are now.")
        return await self._store.amanifest(await self.manifest_id(number))

    @on_core
    async def latest(self, thread: str) -> Manifest:
        """Return the own files of a thread as they were last captured. Empty: they never were."""
        row = await self._ledger.latest(thread_workspace(thread))
        return await self._store.amanifest(row.manifest) if row else Manifest({})

    async def content(self, manifest: Manifest, path: str) -> bytes:
        """Return the content of a file of a manifest. Raises as `WorkspaceStore.aread`."""
        return await self._store.aread(manifest.id, path)

    @on_core
    async def changed(self, thread: str, before: str | None, after: str | None) -> TurnChange:
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
        numbers = [(await self.capture_at(thread, ticket))[0] for ticket in (begin, after)]
        if None in numbers:
            return TurnChange()  # no command of the thread has run
        ids = [await self.manifest_id(number) for number in numbers if number is not None]
        difference = await self._store.adifference(*ids)
        old, new = [(await self._store.amanifest(each)).skipped for each in ids]
        of_turn = set(difference)
        return TurnChange(
            difference,
            {path: why for path, why in new.items() if path in of_turn or old.get(path) != why},
        )

    async def begin_of(self, thread: str, before: str | None, after: str | None) -> str | None:
        """Return the ticket at the begin of a turn. For the arguments see `changed`."""
        begin = after
        while begin and (earlier := await self._ledger.before(thread, begin)) not in (before or START, START):
            begin = earlier
        return begin

    async def capture_at(self, thread: str, ticket: str | None) -> tuple[int | None, str | None]:
        """Return the capture of a ticket, and why it is an earlier one than asked for.

        No capture means that no command of the thread has run yet.

        Raises:
            NoCapture: there is no capture up to this ticket.
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

    async def manifest_id(self, number: int) -> str:
        """Return the manifest of a capture.

        Raises:
            NoCapture: the capture was removed.
        """
        row = await self._ledger.row(number)
        if row is None:
            raise NoCapture(
                "The snapshot of this point was removed.", hint="Raise SNAPSHOTS_MAX to keep more snapshots."
            )
        return row.manifest


def _age(ticket: str) -> float:
    return (datetime.now(UTC) - made_at(ticket)).total_seconds()
