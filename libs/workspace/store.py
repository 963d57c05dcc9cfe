"""Keeps workspaces as values: captures, compares and restores them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final
from weakref import WeakKeyDictionary

from libs.persistence import CheckpointerUnavailable
from libs.sandbox import FileFailed, SandboxError, Tree
from libs.sandbox.host import on_core, synchronous
from libs.workspace.catalog import Catalog, manifest_missing
from libs.workspace.contents import Contents, SnapshotsUnavailable, content_missing
from libs.workspace.kept_contents import keep_contents
from libs.workspace.manifest import Difference, Manifest, inside
from libs.workspace.restoring import HalfRestored, difference_at, to_touch, to_undo
from libs.workspace.store_place import StorePlace
from libs.workspace.transfer import Log, bring_to, digests_in, steps_to, walked

__all__ = ["Captured", "Restored", "WorkspaceStore"]

_TRIES: Final = 3
"""Walks of one capture. A file that changes between walk and reading is read again."""
_READ_SECONDS: Final = 60.0
"""Time in which a walk reads contents, because the next command waits for it. The next capture reads on."""
_CHANGING: Final = "it changes while it is read"


@dataclass(frozen=True, slots=True)
class Captured:
    """A captured workspace."""

    id: str
    difference: Difference
    """From the base of the capture. Empty without a base."""
    skipped: Mapping[str, str]
    """Paths that are not kept, each with the reason."""
    times: Mapping[str, int]
    """Path -> when it was changed, in nanoseconds, by the clock of the files. For all paths that have changed
    since the latest capture of this sandbox; for a deleted path, when its folder was changed; for a path that
    came with a folder, when the folder came."""


@dataclass(frozen=True, slots=True)
class Restored:
    """A restored workspace."""

    difference: Difference
    """What was changed; with `dry_run`, what would be changed."""
    kept: Mapping[str, str]
    """Paths that were left as they are, each with the reason."""
    unlisted: tuple[str, ...] = ()
    """With `dry_run`: folders that cannot be read before they have their permissions back. A restore brings
    back what lies in them, too."""


_Round = tuple[Manifest, list[str]]
"""The workspace before one round of a restore, and the paths that the round changes."""


@dataclass(slots=True)
class _Known:
    """What is known of the workspace of a sandbox."""

    manifest: Manifest
    log: Log
    again: frozenset[str] = frozenset()
    """Paths that the next walk reads again."""
    times: Mapping[str, int] = field(default_factory=dict)
    """When paths were changed, as walks of restores have found. The next capture tells this."""


class WorkspaceStore:
    """Captures of workspaces, each content once. Knows no threads.

    Methods raise SandboxError and FileFailed if the sandbox fails, SnapshotsUnavailable and
    CheckpointerUnavailable if the store fails, and ManifestMissing if a named capture is not kept any more.
    Each has an asynchronous twin.
    """

    def __init__(self, catalog: Catalog, contents: Contents, *, file_max: int = 64 * 1024 * 1024) -> None:
        """Use a database and a place for contents.

        Args:
            file_max: bytes of the largest file whose content is kept.
        """
        self._catalog = catalog
        self._contents = contents
        self._file_max = file_max
        self._place = StorePlace(catalog, contents)
        self._known: WeakKeyDictionary[Tree, _Known] = WeakKeyDictionary()
        self._locks: WeakKeyDictionary[Tree, asyncio.Lock] = WeakKeyDictionary()

    @on_core
    async def acapture(self, sandbox: Tree, *, base: str | None = None) -> Captured:
        """Keep the workspace of a sandbox as it is now, without what `skipped` names.

        Args:
            base: the capture to compare with.
        """
        await self._place.check()
        async with self._lock(sandbox):
            now, times = await self._capture(sandbox)
            self._known[sandbox].times = {}
        difference = Difference()
        if base is not None:
            difference = await asyncio.to_thread((await self._catalog.manifest(base)).difference, now)
        return Captured(now.id, difference, now.skipped, times)

    @on_core
    async def adifference(self, a: str, b: str) -> Difference:
        """Return what was created, changed and deleted from capture `a` to capture `b`."""
        if a == b:
            return Difference()
        before, after = await self._catalog.manifest(a), await self._catalog.manifest(b)
        return await asyncio.to_thread(before.difference, after)

    @on_core
    async def amanifest(self, capture: str) -> Manifest:
        """Return all paths of a capture."""
        return await self._catalog.manifest(capture)

    @on_core
    async def aread(self, capture: str, path: str) -> bytes:
        """Return the content of a file as it was captured.

        Raises:
            FileNotFoundError: the capture has no such file, or not its content.
        """
        await self._place.check()
        entry = (await self._catalog.manifest(capture)).entries.get(path)
        if entry is None or entry.sha256 is None:
            raise FileNotFoundError(path)
        content = await self._contents_of([entry.sha256])
        return b"".join([piece async for piece in content(entry.sha256)])

    @on_core
    async def arestore(
        self,
        sandbox: Tree,
        to: str,
        *,
        only: Collection[str] | None = None,
        expect: str | None = None,
        dry_run: bool = False,
    ) -> Restored:
        """Bring the workspace of a sandbox back to a capture. The present is captured first.

        A path stays as it is, and is named in `kept`, where the present or the capture could not keep its
        content, where it is not what `expect` holds, and where it changes meanwhile.

        Args:
            only: paths to touch; None for all.
            expect: capture with the contents that the paths still hold.

        Raises:
            HalfRestored: the restore failed half-way, and could not be undone. After any other error, and
                after a cancellation, the workspace is as before.
        """
        await self._place.check()
        target = await self._catalog.manifest(to)
        if not await self._catalog.has(to):
            raise manifest_missing(to)
        expected = await self._catalog.manifest(expect) if expect is not None else None
        async with self._lock(sandbox):
            rounds: list[_Round] = []
            try:
                return await self._restore(sandbox, target, only, expected, None if dry_run else rounds)
            except BaseException as error:
                if problem := await self._undone(sandbox, target, rounds):
                    raise HalfRestored(
                        f"A restore of the workspace stopped half-way: {error} It could not be undone: "
                        f"{problem}",
                        hint="Restore again, when the cause is mended: that completes it.",
                    ) from error
                raise

    capture = synchronous(acapture)
    difference = synchronous(adifference)
    manifest = synchronous(amanifest)
    read = synchronous(aread)
    restore = synchronous(arestore)

    def _lock(self, sandbox: Tree) -> asyncio.Lock:
        return self._locks.setdefault(sandbox, asyncio.Lock())

    async def _contents_of(self, digests: Iterable[str]) -> Callable[[str], AsyncIterator[bytes]]:
        """Return a function that yields one of the contents in pieces. Raises ContentMissing."""
        places = await self._catalog.places(digests)

        def content(digest: str) -> AsyncIterator[bytes]:
            if digest not in places:
                raise content_missing(digest, "is gone")
            return self._contents.get(places[digest], digest)

        return content

    async def _capture(self, sandbox: Tree) -> tuple[Manifest, dict[str, int]]:
        """Keep the workspace as it is now. Return it, and when its changed paths were changed.

        Files that change while they are read are listed without content.
        """
        known = self._known.get(sandbox, _Known(Manifest({}), Log()))
        earlier = known.manifest
        times = dict(known.times)
        for attempt in range(1, _TRIES + 1):
            found = await walked(
                sandbox,
                known.manifest,
                known.log,
                most=self._file_max,
                again=known.again,
                seconds=_READ_SECONDS,
            )
            times |= found.times
            now = found.manifest
            if now is earlier:  # nothing has changed, and its contents are kept
                known = _Known(now, found.log)
                break
            await asyncio.to_thread(getattr, now, "id")  # hashes all entries
            changing = await keep_contents(sandbox, self._catalog, self._contents, now, earlier)
            if changing and attempt == _TRIES:
                now = now.without_contents(changing, _CHANGING)
            known = _Known(now, found.log, frozenset(map(inside, changing)))
            if not changing:
                break
        base: Manifest | None = earlier
        for _ in range(_TRIES):
            if await self._catalog.add(now, base):
                break
            # A prune has removed contents since they were found.
            base = None
            changing = await keep_contents(sandbox, self._catalog, self._contents, now, base)
            now = now.without_contents(changing, _CHANGING) if changing else now
            known = _Known(now, known.log, known.again | {*map(inside, changing)})
        else:
            raise SnapshotsUnavailable(
                "Files or snapshots change all the time.", hint="The next step is captured again."
            )
        self._known[sandbox] = replace(known, times=times)
        return now, times

    async def _restore(
        self,
        sandbox: Tree,
        target: Manifest,
        only: Collection[str] | None,
        expected: Manifest | None,
        rounds: list[_Round] | None,
    ) -> Restored:
        """Bring paths to a capture. Add each round to `rounds` before it begins; None: change nothing."""
        made = Difference()
        now, _ = await self._capture(sandbox)
        for _ in range(_TRIES):
            paths, kept = await asyncio.to_thread(to_touch, now, target, only, expected)
            left: dict[str, str] = {}
            if paths and rounds is not None:
                rounds.append((now, paths))
                left = await self._bring(sandbox, now, target, paths)
                kept |= left
            touched = [path for path in paths if path not in left]
            made = made.and_then(await asyncio.to_thread(difference_at, now, target, touched))
            closed = tuple(path for path in touched if path in now.skipped)
            if rounds is None:
                unlisted = tuple(filter(now.is_folder, closed))
                below = tuple(f"{path}/" for path in unlisted)
                known = {path: why for path, why in kept.items() if not path.startswith(below)}
                return Restored(made, known, unlisted)
            if not closed:
                break
            # A folder that could not be read has its permissions back: now it can be restored, too.
            now, _ = await self._capture(sandbox)
        return Restored(made, kept)

    async def _bring(
        self, sandbox: Tree, now: Manifest, to: Manifest, paths: Collection[str]
    ) -> dict[str, str]:
        """Bring paths from one state to another. Return those that were left alone, each with the reason."""
        steps = await asyncio.to_thread(steps_to, now, to, paths)
        return await bring_to(sandbox, steps, await self._contents_of(digests_in(steps)))

    async def _undone(self, sandbox: Tree, target: Manifest, rounds: Sequence[_Round]) -> object:
        """Take back the rounds of a restore, the last first. Return what prevents that; None if done."""
        try:
            for before, paths in reversed(rounds):
                now, _ = await self._capture(sandbox)
                back = await asyncio.to_thread(to_undo, now, before, target, paths)
                for path, why in (await self._bring(sandbox, now, before, back)).items():
                    return f"{path}: {why}."
        except (SandboxError, FileFailed, SnapshotsUnavailable, CheckpointerUnavailable) as error:
            return error
        return None
