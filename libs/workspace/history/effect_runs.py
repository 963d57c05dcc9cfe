"""Runs a call between two captures, so that its effect is known and can be undone.

What is known of a call is kept in the command log, under the call's key with a suffix: the capture before it
(`#before`), its effect (`#effect`), why it must be asked about first (`#first`), that it stays (`#kept`), and
what was undone (`#undone`). So nothing happens twice if the program is killed, whenever that is.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import replace

from libs.persistence import CheckpointerUnavailable
from libs.sandbox import FileFailed, RunResult, SandboxError
from libs.sandbox.host import CommandRecords, failed_result, file_clock, on_core, process_is_ending
from libs.workspace import Difference, Manifest, SnapshotsUnavailable
from libs.workspace.history.call_effects import AskFirst, Effect, IsFree, Undone, named
from libs.workspace.history.changed_by import of_one_thread
from libs.workspace.history.turn_captures import TurnCaptures

__all__ = ["EffectRuns"]

logger = logging.getLogger(__name__)


class EffectRuns:
    """Runs calls of threads between two captures.

    Args:
        captures: the captures of the threads. With locks, unless no call runs at once any more, or calls of a
            thread cannot run side by side anyway.
        is_free: which changes need no approval.
    """

    def __init__(self, captures: TurnCaptures, is_free: IsFree) -> None:
        self._captures = captures
        self._sandbox_of = captures.sandbox_of
        self._store = captures.store
        self._ledger = captures.ledger
        self._is_free = is_free

    @on_core
    async def begun(self, thread: str, keys: Collection[str]) -> set[str]:
        """Return the keys of calls that have begun here, whatever came of them."""
        noted = {f"{key}#before": key for key in keys}
        records = self._sandbox_of(thread).records
        found = await records.awaited(records.begun, thread, list(noted)) if records else set()
        return {noted[each] for each in found}

    @on_core
    async def run(self, thread: str, key: str, run: Callable[[], Awaitable[RunResult]]) -> Effect | AskFirst:
        """Run a call without network, end what it leaves running, and return its effect.

        A call that has run before is not run again: the same effect is returned.

        Args:
            run: runs the call with this key, `alone` (see `Sandbox.run`). Does not raise.

        Raises:
            SandboxError, FileFailed, SnapshotsUnavailable, CheckpointerUnavailable: the call has run, and its
                effect cannot be captured. The next attempt captures it.
        """
        if (records := self._sandbox_of(thread).records) is None:
            return AskFirst("there is no record of commands, so it could run twice")
        noted = (f"{key}#first", f"{key}#effect")
        first, kept = await records.awaited(records.noted_each, thread, noted)
        if first:
            return AskFirst(first)
        if kept:
            return Effect.read(kept)
        async with self._alone(thread):
            # Read under the lock: another attempt of this call may have just ended.
            before = await self._before(thread, key, records)
            if isinstance(before, str):
                return await self._ask_first(thread, key, before, records)
            began = file_clock()
            # Until the captures have ended: only then does nothing run for the call any more.
            with self._sandbox_of(thread).without_network() as refused:
                try:
                    result = await run()
                    if not await records.awaited(records.begun, thread, [key]):
                        why = f"the sandbox could not run it: {result.output.strip()}"
                        return await self._ask_first(thread, key, why, records)
                    effect = await self._effect(thread, before, result, refused, since=began)
                except asyncio.CancelledError:
                    if not process_is_ending():  # else the next process asks about the effect
                        await self._take_back(thread, key, before, since=began)
                    raise
            notes = {f"{key}#effect": effect.text()} | ({f"{key}#kept": ""} if effect.free else {})
            await records.awaited(records.note_each, thread, notes)
        return effect

    @on_core
    async def keep(self, thread: str, key: str) -> None:
        """Note that the effect of a call stays."""
        records = self._records(thread)
        await records.awaited(records.note, thread, f"{key}#kept", "")

    @on_core
    async def lapse(self, thread: str) -> None:
        """Undo calls whose effects nobody has decided on, because a person's turn begins instead.

        Raises:
            SandboxError, SnapshotsUnavailable, CheckpointerUnavailable, FileFailed: see `undo`.
        """
        if (records := self._sandbox_of(thread).records) is None:
            return
        found = await records.awaited(records.noted_with, thread, "#before")
        for suffix in ("#kept", "#undone", "#first") if found else ():
            found -= await records.awaited(records.noted_with, thread, suffix)
        before = {key: await self._before(thread, key, records) for key in found}
        # The latest first.
        for key, at in sorted(before.items(), key=lambda each: each[1], reverse=True):
            if text := await records.awaited(records.noted, thread, f"{key}#effect"):
                await self.undo(thread, key, Effect.read(text))
            elif not isinstance(at, str):  # the program was killed before the effect was known
                async with self._alone(thread):
                    await self._take_back(thread, key, at, since=file_clock())

    @on_core
    async def undo_for_network(self, thread: str, key: str, effect: Effect) -> AskFirst:
        """Undo a call that needs the network, so that it can run again with network, if a person approves."""
        records = self._records(thread)
        undone = await self.undo(thread, key, effect)
        why = f"it was run without network, and undone: it asks for {', '.join(effect.refused)}"
        if undone.kept:
            why += f". Not undone: {named(undone.kept)}"
        async with self._alone(thread):
            await records.awaited(records.note, thread, f"{key}#first", why)
            await records.awaited(records.drop, thread, key)
        return AskFirst(why)

    @on_core
    async def undo(
        self, thread: str, key: str, effect: Effect, *, programs: bool = False, rejected: bool = False
    ) -> Undone:
        """Bring back what still holds what a call has left. A call that was undone is not undone again.

        Args:
            programs: whether the thread's interpreters end, which know what the call has done.
            rejected: whether a person has seen the effect and rejected it. Only then is undone what has
                changed in a shared workspace since the begin of a call that was cut off, perhaps by others.

        Raises:
            SandboxError, CheckpointerUnavailable: see `run`. The next attempt completes the undo.
        """
        records = self._records(thread)
        if kept := await records.awaited(records.noted, thread, f"{key}#undone"):
            return Undone.read(kept)
        async with self._alone(thread):
            if programs:
                await self._sandbox_of(thread).aend_programs(thread)
            try:
                left = await self._restored(thread, effect, cut_off=rejected)
            except (SnapshotsUnavailable, FileFailed) as error:
                left = dict.fromkeys((*effect.difference, *effect.unread), f"the undo failed: {error}")
            parts = ([path for path in part if path not in left] for part in effect.difference.parts)
            undone = Undone(Difference(*map(tuple, parts)), left)
            await records.awaited(records.note, thread, f"{key}#undone", undone.text())
        return undone

    async def read(self, capture: str, path: str) -> bytes | None:
        """Return the content of a file in a capture. None: it is not kept."""
        with suppress(FileNotFoundError, SnapshotsUnavailable):
            return await self._store.aread(capture, path)
        return None

    async def manifests(self, effect: Effect) -> tuple[Manifest, Manifest]:
        """Return the files before and after a call. Empty: they are not kept any more."""
        with suppress(SnapshotsUnavailable):
            return await self._store.amanifest(effect.before), await self._store.amanifest(effect.after)
        return Manifest({}), Manifest({})

    # -- parts of a run

    async def _before(self, thread: str, key: str, records: CommandRecords) -> tuple[int, str] | str:
        """Return the capture before a call, or why the call must be asked about first."""
        if kept := await records.awaited(records.noted, thread, f"{key}#before"):
            number, capture = json.loads(kept)
            return number, capture
        try:
            number, manifest = await self._captured(thread, asks=False)
        except (SandboxError, FileFailed, SnapshotsUnavailable, CheckpointerUnavailable) as error:
            return f"no snapshot of the workspace can be made, so it could not be undone: {error}"
        if manifest.skipped:
            return f"it could not be undone, because no snapshot holds {named(manifest.skipped)}"
        await records.awaited(records.note, thread, f"{key}#before", json.dumps([number, manifest.id]))
        return number, manifest.id

    async def _effect(
        self,
        thread: str,
        before: tuple[int, str],
        result: RunResult,
        refused: Collection[str],
        *,
        since: int,
    ) -> Effect:
        """Capture what a call has changed. `since`: see `Turns.still_running`."""
        number, capture = before
        with self._sandbox_of(thread).turns.still_running(thread, since):
            try:
                last, after = await self._captured(thread)
            except SandboxError:  # the command has ended its sandbox: another one sees the same files
                last, after = await self._captured(thread)
        earlier = await self._store.amanifest(capture)
        difference, free = await asyncio.to_thread(self._changes, earlier, after)
        return Effect(
            result=result,
            difference=difference,
            unread=dict(after.skipped),
            free=free and result.interrupted is None,
            refused=sorted(refused),  # now: the gateway answers while the files are captured
            before=capture,
            after=after.id,
            numbers=(number, last),
        )

    def _changes(self, before: Manifest, after: Manifest) -> tuple[Difference, bool]:
        """Return what differs, and whether nobody has to be asked about that."""
        difference = before.difference(after)
        free = not after.skipped.keys() - after.entries.keys() and all(
            self._is_free(path, before.entries.get(path), after.entries.get(path)) for path in difference
        )
        return difference, free

    async def _take_back(self, thread: str, key: str, before: tuple[int, str], *, since: int) -> None:
        """Undo a call that was cancelled, unless its effect is free.

        If all was undone and the run goes on, nobody is asked about the call, and what other people have
        changed since does not count as its effect.
        """
        try:
            effect = await self._effect(thread, before, failed_result("cancelled"), [], since=since)
            left = {} if effect.free else await self._restored(thread, effect)
            records = self._records(thread)
            begun = await records.awaited(records.begun, thread, [key])
            if begun and not left:
                if not effect.free:
                    effect = replace(effect, difference=Difference(), unread={}, free=True, refused=[])
                await records.awaited(records.note, thread, f"{key}#effect", effect.text())
        except (SandboxError, FileFailed, SnapshotsUnavailable, CheckpointerUnavailable) as error:
            logger.warning("A command of thread %s was cancelled, and not undone: %s", thread, error)
        await self.keep(thread, key)

    async def _ask_first(self, thread: str, key: str, why: str, records: CommandRecords) -> AskFirst:
        await records.awaited(records.note, thread, f"{key}#first", why)
        return AskFirst(why)

    async def _captured(self, thread: str, *, asks: bool = True) -> tuple[int, Manifest]:
        """Capture the workspace now. Return the capture's number in the ledger, and what it holds."""
        await self._captures.settled(thread)
        ticket = await self._ledger.open(thread, asks=asks)
        async with self._captures.one_at_a_time(thread) as workspace:
            captured = await self._captures.keep(thread, workspace, [ticket])
        return captured.number, await self._store.amanifest(captured.id)

    # -- parts of an undo

    async def _restored(self, thread: str, effect: Effect, *, cut_off: bool = False) -> dict[str, str]:
        """Restore what a call has changed. Return the paths that stay, each with the reason.

        Args:
            cut_off: see `of_one_thread`.
        """
        ledger, captures = self._ledger, self._captures
        ticket, after = await ledger.open(thread), await ledger.open(thread)
        async with captures.one_at_a_time(thread) as workspace:
            await captures.keep(thread, workspace, [ticket])
            tree = await captures.tree(thread)
            rows = await ledger.since(workspace, effect.numbers[0])
            rows = [row for row in rows if row.number <= effect.numbers[1]]
            paths = {*effect.difference}
            own, foreign = paths, dict[str, str]()
            if captures.shared:
                own, foreign = of_one_thread(thread, rows, paths, cut_off=cut_off)
            done = await self._store.arestore(tree, effect.before, only=own & paths, expect=effect.after)
            made, left = set(done.difference), {**foreign, **done.kept}
            if effect.unread:
                # What a call has done in a folder that it has closed can only be seen now.
                now = (await captures.keep(thread, workspace, [], own=made)).id
                more = await self._store.adifference(now, effect.before)
                below = [path for path in more if any(path.startswith(f"{at}/") for at in effect.unread)]
                done = await self._store.arestore(tree, effect.before, only=below, expect=now)
                left = {path: why for path, why in left.items() if path not in done.difference}
                made |= set(done.difference)
                left |= done.kept
            await captures.keep(thread, workspace, [after], own=made)
        return {**left, **{path: why for path, why in effect.unread.items() if path not in made | paths}}

    @asynccontextmanager
    async def _alone(self, thread: str) -> AsyncIterator[None]:
        locks = self._captures.locks  # none where no call runs at once any more, and an old one is decided
        async with locks.held(self._captures.workspace_of(thread)) if locks else nullcontext():
            yield

    def _records(self, thread: str) -> CommandRecords:
        records = self._sandbox_of(thread).records
        if records is None:
            raise RuntimeError("a call without a record was never run here")
        return records
