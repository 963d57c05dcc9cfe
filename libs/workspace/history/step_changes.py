"""Tells which thread has changed which paths since the capture before."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from contextlib import suppress

from libs.sandbox.host import Span
from libs.workspace import ManifestMissing, WorkspaceStore, folders_above
from libs.workspace.history.changed_by import CUT_OFF, by_thread
from libs.workspace.history.workplace import Workplace
from libs.workspace.ledger import Ledger

__all__ = ["StepChanges"]


class StepChanges:
    """Compares captures of a workspace, for the ledger.

    Args:
        shared: whether all threads have one workspace.
    """

    def __init__(self, store: WorkspaceStore, ledger: Ledger, *, shared: bool) -> None:
        self._store = store
        self._ledger = ledger
        self._shared = shared

    async def by_thread(
        self,
        sandbox: Workplace,
        workspace: str,
        captures: tuple[str | None, str],
        *,
        times: Mapping[str, int],
        spans: Collection[Span],
        own: Mapping[str, Collection[str]],
    ) -> dict[str, list[str]]:
        """Return the paths that differ between two captures, by the thread that has changed them.

        Args:
            captures: the latest in the ledger, if any, and the new one.
            times: when the paths were changed.
            spans: the commands of this program.
            own: paths that were changed for a thread, whatever the times of its commands.
        """
        before, now = captures
        paths: set[str] = set()
        if before is not None:
            difference = await self._store.adifference(before, now)
            paths = set(difference).difference(*own.values())
            times = {**times, **_of_folders(difference.deleted, times)}
        # In each capture: the end of a killed program is when this is first asked.
        others = await self._spans_of_others(sandbox, [times[path] for path in paths if path in times])
        if before in (None, now):
            return {}
        restored = await self._restored_in_part(workspace, now, paths)
        paths.difference_update(*restored.values())
        changes = await asyncio.to_thread(by_thread, paths, times, [*spans, *others])
        for found in (restored, own):
            for who, more in found.items():
                changes[who] = [*changes.get(who, ()), *more]
        return changes

    async def _restored_in_part(
        self, workspace: str, captured: str, paths: Collection[str]
    ) -> dict[str, list[str]]:
        """Return changed paths that returns have brought back which were cut off, by the thread."""
        found: dict[str, list[str]] = {}
        for thread, target in await self._ledger.unfinished_restores(workspace) if self._shared else ():
            with suppress(ManifestMissing):  # removed meanwhile: the paths count as changed by others
                wanted = await self._store.amanifest(target)
                now = await self._store.amanifest(captured)
                found[thread] = [path for path in paths if now.holds_as(wanted, path)]
        return found

    async def _spans_of_others(self, sandbox: Workplace, times: Collection[int]) -> list[Span]:
        """Return the commands that other programs ran in the same workspace at some times or later."""
        if not (self._shared and sandbox.records):
            return []
        since = min(times, default=time.time_ns()) / 1e9 - 1
        found = await sandbox.records.of_other_programs(since, str(sandbox.root))
        return [
            Span(
                CUT_OFF if thread is None else thread,
                int(began * 1e9),
                None if ended is None else int(ended * 1e9),
            )
            for thread, began, ended in found
        ]


def _of_folders(deleted: Collection[str], times: Mapping[str, int]) -> dict[str, int]:
    """Return when the folders of deleted paths were changed, for paths without a time.

    The first walk of a program does not know which paths there were before.
    """
    found: dict[str, int] = {}
    for path in deleted:
        if path not in times and (at := next((times[up] for up in folders_above(path) if up in times), None)):
            found[path] = at
    return found
