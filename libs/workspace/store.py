"""Keeps workspaces as values: captures, compares and restores them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final
from weakref import WeakKeyDictionary

from libs.sandbox import Sandbox
from libs.sandbox.host import on_core, synchronous
from libs.workspace.catalog import Catalog, manifest_missing
from libs.workspace.contents import Contents, SnapshotsUnavailable, content_missing
from libs.workspace.manifest import Difference, Entry, Manifest, inside, shown, within
from libs.workspace.transfer import BATCH, Part, batches, bring_to, parts_of, read_parts, steps_to, walked

__all__ = ["Captured", "Restored", "WorkspaceStore"]

_TRIES: Final = 3
"""Walks of one capture. A file that changes between walk and reading is read again."""
_AT_ONCE: Final = 2
"""Batches of contents on their way at once, so memory stays bounded."""
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
    since the latest capture of this sandbox; for a deleted path, when its folder was changed."""


@dataclass(frozen=True, slots=True)
class Restored:
    """A restored workspace."""

    before: str
    """Capture of the workspace just before."""
    difference: Difference
    """What was changed; with `dry_run`, what would be changed."""
    kept: Mapping[str, str]
    """Paths that were left as they are, each with the reason."""


@dataclass(slots=True)
class _Known:
    """What is known of the workspace of a sandbox."""

    manifest: Manifest
    walk: bytes
    again: frozenset[str] = frozenset()
    """Paths that the next walk reads again."""


class WorkspaceStore:
    """Captures of workspaces, each content once. Knows no threads: see `tickets.py`.

    Methods raise SandboxError and FileFailed if the sandbox fails, SnapshotsUnavailable and
    CheckpointerUnavailable if the store fails. Then nothing has changed, or `restore` says so. Each has an
    asynchronous twin.
    """

    def __init__(self, catalog: Catalog, contents: Contents, *, file_max: int = 64 * 1024 * 1024) -> None:
        """Use a database and a place for contents.

        Args:
            file_max: bytes of the largest file whose content is kept.
        """
        self._catalog = catalog
        self._contents = contents
        self._file_max = file_max
        self._known: WeakKeyDictionary[Sandbox, _Known] = WeakKeyDictionary()
        self._locks: WeakKeyDictionary[Sandbox, asyncio.Lock] = WeakKeyDictionary()

    @on_core
    async def acapture(self, sandbox: Sandbox, *, base: str | None = None) -> Captured:
        """Keep the workspace of a sandbox as it is now, without what `skipped` names.

        Args:
            base: the capture to compare with.
        """
        async with self._lock(sandbox):
            now, times = await self._capture(sandbox)
        difference = Difference()
        if base is not None:
            difference = await self._difference(await self._catalog.manifest(base), now)
        return Captured(now.id, difference, now.skipped, times)

    @on_core
    async def adifference(self, a: str, b: str) -> Difference:
        """Return what was created, changed and deleted from capture `a` to capture `b`."""
        return await self._difference(await self._catalog.manifest(a), await self._catalog.manifest(b))

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
        entry = (await self._catalog.manifest(capture)).entries.get(path)
        if entry is None or entry.sha256 is None:
            raise FileNotFoundError(path)
        places = await self._catalog.places([entry.sha256])
        return b"".join([piece async for piece in self._content(places, entry.sha256)])

    @on_core
    async def arestore(
        self,
        sandbox: Sandbox,
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
        """
        target = await self._catalog.manifest(to)
        if not await self._catalog.has(to):
            raise manifest_missing(to)
        expected = await self._catalog.manifest(expect) if expect is not None else None
        async with self._lock(sandbox):
            now, _ = await self._capture(sandbox)
            paths, kept = await asyncio.to_thread(_to_touch, now, target, only, expected)
            if paths and not dry_run:
                steps = await asyncio.to_thread(steps_to, now, target, paths)
                places = await self._catalog.places(step["sha256"] for step in steps if "sha256" in step)
                kept |= await bring_to(sandbox, steps, partial(self._content, places))
        touched = [path for path in paths if path not in kept]
        return Restored(now.id, _difference_at(now, target, touched), kept)

    capture = synchronous(acapture)
    difference = synchronous(adifference)
    manifest = synchronous(amanifest)
    read = synchronous(aread)
    restore = synchronous(arestore)

    def _lock(self, sandbox: Sandbox) -> asyncio.Lock:
        return self._locks.setdefault(sandbox, asyncio.Lock())

    def _content(self, places: Mapping[str, str], digest: str) -> AsyncIterator[bytes]:
        if digest not in places:
            raise content_missing(digest, "is gone")
        return self._contents.get(places[digest], digest)

    async def _difference(self, before: Manifest, after: Manifest) -> Difference:
        if before.id == after.id:
            return Difference()
        return await asyncio.to_thread(before.difference, after)

    async def _capture(self, sandbox: Sandbox) -> tuple[Manifest, dict[str, int]]:
        """Keep the workspace as it is now. Return it, and when its changed paths were changed. Files that change while they are read are listed without content."""
        known = self._known.get(sandbox)
        earlier = known.manifest if known else None
        times: dict[str, int] = {}
        for attempt in range(1, _TRIES + 1):
            found = await walked(
                sandbox,
                known.walk if known else b"",
                most=self._file_max,
                again=known.again if known else (),
            )
            times |= found.times
            base = known.manifest if known else Manifest({})
            now = await asyncio.to_thread(base.with_change, found.change)
            changing = await self._keep_contents(sandbox, now, earlier)
            if changing and attempt == _TRIES:
                now = now.without_contents(changing, _CHANGING)
            known = _Known(now, found.known, frozenset(map(inside, changing)))
            if not changing:
                break
        assert known
        for _ in range(_TRIES):
            if await self._catalog.add(now, earlier):
                break
            # A prune has removed contents since they were found.
            earlier = None
            changing = await self._keep_contents(sandbox, now, earlier)
            now = now.without_contents(changing, _CHANGING) if changing else now
            known = _Known(now, known.walk, known.again | {*map(inside, changing)})
        else:
            raise SnapshotsUnavailable(
                "Files or snapshots change all the time.", hint="The next step is captured again."
            )
        self._known[sandbox] = known
        return now, times

    async def _keep_contents(self, sandbox: Sandbox, now: Manifest, earlier: Manifest | None) -> set[str]:
        """Keep the contents of a workspace that the store does not have.

        Returns the paths of files that have changed since the walk.
        """
        if await self._catalog.has(now.id):
            return set()
        new = now.digests
        if earlier and await self._catalog.has(earlier.id):
            new -= earlier.digests
        missing = await self._catalog.missing(new)
        paths = {digest: path for path, entry in now.entries.items() if (digest := entry.sha256) in missing}
        files = {inside(path): now.entries[path] for path in paths.values()}
        wrong: set[str] = set()
        if not files:
            return wrong
        place = await self._catalog.open_place()
        slots = asyncio.Semaphore(_AT_ONCE)

        async def keep(files: Mapping[str, Entry], batch: list[Part]) -> None:
            async with slots:
                contents = await read_parts(sandbox, batch)
                named = [(files[path].sha256 or "", content) for (path, _, _), content in zip(batch, contents)]
                sizes = await self._contents.put(place, named)
                await self._catalog.kept(place, sizes)
                wrong.update(shown(path) for path, _, _ in batch if files[path].sha256 not in sizes)

        async def keep_large(path: str, entry: Entry) -> None:
            async def pieces() -> AsyncIterator[bytes]:
                for part in parts_of(path, entry):
                    yield (await read_parts(sandbox, [part]))[0]

            async with slots:
                assert entry.sha256
                size = await self._contents.put_large(place, entry.sha256, pieces())
                if size is None:
                    wrong.add(shown(path))
                else:
                    await self._catalog.kept(place, {entry.sha256: size})

        try:
            async with asyncio.TaskGroup() as tasks:
                for batch in batches({path: entry for path, entry in files.items() if entry.size <= BATCH}):
                    tasks.create_task(keep(files, batch))
                for path, entry in files.items():
                    if entry.size > BATCH:
                        tasks.create_task(keep_large(path, entry))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors
        await self._catalog.close_place(place)
        return wrong


def _to_touch(
    now: Manifest, target: Manifest, only: Collection[str] | None, expected: Manifest | None
) -> tuple[list[str], dict[str, str]]:
    """Return the paths to bring from `now` to `target`, and those that are kept, each with the reason."""
    paths: list[str] = []
    kept: dict[str, str] = {}
    for path in now.difference(target):
        old, new = now.entries.get(path), target.entries.get(path)
        if only is not None and path not in only:
            continue
        if within(path, now.skipped):
            kept[path] = f"its present content is not kept: {now.reason(path)}"
        elif within(path, target.skipped):
            kept[path] = f"its earlier content was not kept: {target.reason(path)}"
        elif expected is not None and expected.entries.get(path) != old:
            kept[path] = "it was changed by somebody else"
        else:
            paths.append(path)
    return paths, kept


def _difference_at(now: Manifest, target: Manifest, paths: Collection[str]) -> Difference:
    """Return the difference of two manifests at some paths."""
    whole = now.difference(target)
    wanted = set(paths)
    return Difference(*(tuple(path for path in part if path in wanted) for part in whole.parts))
