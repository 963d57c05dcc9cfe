"""Bounds the store: removes the oldest captures, and the contents that no capture needs any more."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final

from libs.persistence.thread_database import Database, Do
from libs.sandbox.host import on_core
from libs.workspace import Catalog, Contents, ManifestMissing, StorePlace, in_parts
from libs.workspace.prune.kept_rows import KeptRow, forget_tickets, kept_rows, remove_rows
from libs.workspace.prune.manifest_scan import named_contents

__all__ = ["Pruned", "Pruner"]

_YOUNG: Final = 3600.0
"""Seconds. A capture that relies on contents may take long, so younger ones are not removed by a prune."""
_ALWAYS: Final = 1 << 62
_TABLES: Final = (
    *(
        "workspace_manifests",
        "workspace_contents",
        "workspace_places",
        "workspace_removed",
        "workspace_store",
    ),
    *("workspace_captures", "workspace_tickets", "workspace_heads", "workspace_ways_back", "workspace_moves"),
    *("workspace_restores", "workspace_news", "workspace_claims"),
)
_AT_ONCE: Final = 1_000
"""Contents that are removed at once."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """What a prune has done."""

    captures: int
    """Captures that were removed."""
    freed: int
    """Bytes of removed contents."""
    size: int
    """Bytes of the contents that are left."""


@dataclass(slots=True)
class _Plan:
    rows: list[int]
    """Captures to remove."""
    manifests: set[str]
    """Manifests that no capture names then."""
    contents: set[str]
    """Contents that no manifest names then."""
    known: set[str]
    """Manifests that stay, and name none of these contents."""


class Pruner:
    """Removes captures and contents. Safe beside captures and prunes of this and other programs.

    A capture checks, when it is added, that all its contents are still kept, and keeps them again if not.
    Contents are removed from the database first, and then from their place, which no later capture uses.

    Methods raise SnapshotsUnavailable and CheckpointerUnavailable if the store fails; the next prune goes on.
    """

    def __init__(self, database: Database, catalog: Catalog, contents: Contents) -> None:
        self._database = database
        self._catalog = catalog
        self._contents = contents
        self._place = StorePlace(catalog, contents)

    async def size(self) -> int:
        """Return the bytes of all kept contents."""
        return await self._database.awaited(_size)

    async def is_due(self, most: int) -> bool:
        """Return whether a prune would have something to do. Cheap."""

        def work(do: Do) -> bool:
            until = time.time() - _YOUNG
            if _size(do) > most or do("SELECT 1 FROM workspace_removed LIMIT 1"):
                return True
            return bool(do(_UNNAMED, until) or do(_LEFT, until))

        return await self._database.awaited(work)

    @on_core
    async def prune(self, most: int, *, young: float = _YOUNG) -> Pruned:
        """Remove the oldest captures until the contents have at most `most` bytes.

        Captures stay that the latest state of a thread, a pending question or an undo needs. Captures and
        contents that nothing names any more are removed in any case.

        Args:
            young: seconds. Captures and contents that are younger stay, too.
        """
        await self._place.check()
        until = time.time() - young
        plan = await asyncio.to_thread(self._planned, most, until)

        def work(do: Do) -> int:
            self._database.serialize(do)
            free = {row.number for row in kept_rows(do) if not row.needed}.intersection(plan.rows)
            remove_rows(do, free)
            _dropped(do, plan.manifests, until)
            return len(free)

        captures = await self._database.awaited(work)
        freed = await self._remove(plan.contents, plan.known, until)
        return Pruned(captures, freed, await self.size())

    async def forget_all(self) -> None:
        """Forget everything, for a store that is gone. Contents that are still at their place stay there."""

        def work(do: Do) -> None:
            for table in _TABLES:
                do(f"DELETE FROM {table}")  # noqa: S608

        await self._database.awaited(work)

    @on_core
    async def forget(self, thread: str) -> None:
        """Remove the tickets of a deleted thread, and the captures and contents that only it needed."""
        until = time.time()

        def work(do: Do) -> set[str]:
            self._database.serialize(do)
            numbers = forget_tickets(do, thread)
            free = [row for row in kept_rows(do) if row.number in numbers and not row.named]
            remove_rows(do, {row.number for row in free})
            return _dropped(do, {row.manifest for row in free}, until)

        if dropped := await self._database.awaited(work):
            contents, known = await asyncio.to_thread(self._only_named_by, dropped)
            await self._remove(contents, known, until)

    # -- what to remove

    def _planned(self, most: int, until: float) -> _Plan:
        def read(do: Do) -> tuple[list[KeptRow], set[str], dict[str, tuple[int, bool]]]:
            young = {str(row[0]) for row in do("SELECT id FROM workspace_manifests WHERE at >= ?", until)}
            sizes = do("SELECT sha256, size, at FROM workspace_contents")
            return kept_rows(do), young, {str(name): (size, at < until) for name, size, at in sizes}

        rows, young, contents = self._database.wait(read)
        free = [row for row in rows if not row.needed and row.manifest not in young]
        free.sort(key=lambda row: (row.named, row.number))
        # A manifest goes with the last of the captures that name it.
        goes: dict[str, int] = {row.manifest: place for place, row in enumerate(free)}
        goes |= dict.fromkeys(young, _ALWAYS)
        staying = {row.number for row in rows}.difference(row.number for row in free)
        goes |= {row.manifest: _ALWAYS for row in rows if row.number in staying}
        # A content goes with the last of the manifests that name it.
        last: dict[str, int] = {}
        seen: set[str] = set()
        for name, dropped, digests in named_contents(self._database):
            if not dropped:
                seen.add(name)
            place = -1 if dropped else goes.setdefault(name, -1)
            for digest in digests:
                if last.get(digest, -1) < place:
                    last[digest] = place
        freed: defaultdict[int, int] = defaultdict(int)
        for digest, (size, is_old) in contents.items():
            if is_old:
                freed[last.get(digest, -1)] += size
        left = sum(size for size, _ in contents.values())
        until_place = sum(not row.named for row in free) - 1
        for place in sorted(freed):
            if place == _ALWAYS or (place > until_place and left <= most):
                break
            left -= freed[place]
            until_place = max(until_place, place)
        return _Plan(
            [row.number for row in free[: until_place + 1]],
            {name for name, place in goes.items() if place <= until_place},
            {digest for digest in contents if last.get(digest, -1) <= until_place},
            {name for name in seen if goes[name] > until_place},
        )

    def _only_named_by(self, dropped: Collection[str]) -> tuple[set[str], set[str]]:
        """Return the contents that only some dropped manifests name, and the other manifests."""
        only: set[str] = set()
        others: set[str] = set()
        known: set[str] = set()
        for name, is_dropped, digests in named_contents(self._database):
            if not is_dropped:
                known.add(name)
                others |= digests
            elif name in dropped:
                only |= digests
        return only - others, known

    # -- removing

    async def _remove(self, contents: set[str], known: set[str], until: float) -> int:
        """Remove contents that none of the known manifests names. Return their bytes."""
        contents, known = set(contents), set(known)
        freed = 0

        def work(do: Do, part: set[str]) -> tuple[set[str], int]:
            self._database.serialize(do)
            kept = {str(row[0]) for row in do("SELECT id FROM workspace_manifests WHERE dropped = 0")}
            if new := kept - known:
                return new, 0
            in_parts(do, _NOTE, part, until)
            return set(), sum(row[0] for row in in_parts(do, _TAKE_OUT, part, until))

        while contents:
            part = set(islice(contents, _AT_ONCE))  # a capture waits for each transaction
            new, size = await self._database.awaited(partial(work, part=part))
            for name in new:  # added, or in use again, since the plan was made
                with suppress(ManifestMissing):
                    contents -= (await self._catalog.manifest(name)).digests
                known.add(name)
            if not new:
                contents -= part
                freed += size
        await self._database.awaited(_remove_unused)
        await self._find_left_places()
        await self._remove_from_places()
        return freed

    async def _find_left_places(self) -> None:
        """Note for removal what captures have left at their places that were broken off an hour ago."""
        until = time.time() - _YOUNG

        def left(do: Do) -> list[str]:
            self._database.serialize(do)
            # From now on, nothing can be kept there.
            rows = do("UPDATE workspace_places SET at = 0 WHERE at < ? RETURNING place", until)
            return [str(row[0]) for row in rows]

        for place in await self._database.awaited(left):
            found = await self._contents.at_place(place)
            await self._database.awaited(partial(_give_up, place=place, found=found))

    async def _remove_from_places(self) -> None:
        """Remove from their places what the database does not have any more."""

        def done(do: Do) -> None:
            for each in gone:
                do("DELETE FROM workspace_removed WHERE place = ? AND sha256 = ?", *each)

        while gone := await self._database.awaited(lambda do: do(_SOME_REMOVED, _AT_ONCE)):
            await self._contents.remove([(str(place), str(digest)) for place, digest in gone])
            await self._database.awaited(done)


def _size(do: Do) -> int:
    return int(do("SELECT coalesce(sum(size), 0) FROM workspace_contents")[0][0])


def _dropped(do: Do, manifests: Collection[str], until: float) -> set[str]:
    """Mark manifests as dropped that no capture names, and no younger one relies on. Return them."""
    return {str(row[0]) for row in in_parts(do, _DROP, manifests, until)}


def _remove_unused(do: Do) -> None:
    """Remove dropped manifests that are no base of others."""
    while do(_REMOVE_UNUSED):
        pass


def _give_up(do: Do, place: str, found: Collection[str]) -> None:
    kept = {row[0] for row in do("SELECT sha256 FROM workspace_contents WHERE place = ?", place)}
    for digest in set(found) - kept:
        do("INSERT INTO workspace_removed VALUES (?, ?) ON CONFLICT DO NOTHING", place, digest)
    do("DELETE FROM workspace_places WHERE place = ?", place)


_UNNAMED = (
    "SELECT 1 FROM workspace_manifests WHERE dropped = 0 AND at < ? "
    "AND id NOT IN (SELECT manifest FROM workspace_captures) LIMIT 1"
)
_SOME_REMOVED = "SELECT place, sha256 FROM workspace_removed LIMIT ?"
_LEFT = "SELECT 1 FROM workspace_places WHERE at < ? LIMIT 1"
_DROP = (
    "UPDATE workspace_manifests SET dropped = 1 WHERE dropped = 0 AND at < ? AND id IN ({}) "
    "AND id NOT IN (SELECT manifest FROM workspace_captures) RETURNING id"
)
_NOTE = (
    "INSERT INTO workspace_removed SELECT place, sha256 FROM workspace_contents "
    "WHERE at < ? AND sha256 IN ({}) ON CONFLICT DO NOTHING"
)
_TAKE_OUT = "DELETE FROM workspace_contents WHERE at < ? AND sha256 IN ({}) RETURNING size"
_REMOVE_UNUSED = (
    "DELETE FROM workspace_manifests WHERE dropped = 1 AND id NOT IN "
    "(SELECT base FROM workspace_manifests WHERE base IS NOT NULL) RETURNING id"
)
