"""Keeps manifests in the database, each as its difference from an earlier one, and the sizes of contents."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import zstandard

from libs.persistence.thread_database import Database, Do
from libs.workspace.contents import SnapshotsUnavailable
from libs.workspace.manifest import Change, Manifest

__all__ = ["Catalog", "ManifestMissing", "in_parts", "manifest_missing"]

_MOST_STEPS: Final = 100
"""Differences between a manifest and the whole one that it is based on."""
_MOST_CACHED: Final = 200_000
"""Entries of all manifests that are kept in memory."""
_AT_ONCE: Final = 500
"""Parameters of one statement."""


class ManifestMissing(SnapshotsUnavailable):
    """The database has no such manifest: it was removed with its thread, or by SNAPSHOTS_MAX."""


class Catalog:
    """Manifests by their id, and contents by SHA-256 with their size in the store.

    A hundred manifests of a large workspace cost what has changed between them. Methods raise
    CheckpointerUnavailable if the database cannot be used.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._cached: OrderedDict[str, Manifest] = OrderedDict()
        binary = "BYTEA" if database.kind == "postgres" else "BLOB"
        database.needs(
            # at: when a capture last relied on it. dropped: only the base of others, without contents.
            "CREATE TABLE IF NOT EXISTS workspace_manifests (id TEXT PRIMARY KEY, base TEXT, "
            f"steps INTEGER NOT NULL, change {binary} NOT NULL, at DOUBLE PRECISION NOT NULL, "
            "dropped INTEGER NOT NULL)",
            "CREATE TABLE IF NOT EXISTS workspace_contents (sha256 TEXT PRIMARY KEY, place TEXT NOT NULL, "
            "size BIGINT NOT NULL, at DOUBLE PRECISION NOT NULL)",
            # Where a capture keeps contents now.
            "CREATE TABLE IF NOT EXISTS workspace_places (place TEXT PRIMARY KEY, "
            "at DOUBLE PRECISION NOT NULL)",
            # Contents that are no longer kept, but may still be at their place.
            "CREATE TABLE IF NOT EXISTS workspace_removed (place TEXT NOT NULL, sha256 TEXT NOT NULL, "
            "PRIMARY KEY (place, sha256))",
            "CREATE TABLE IF NOT EXISTS workspace_store (id TEXT PRIMARY KEY)",
        )

    async def store_id(self) -> str | None:
        """Return the id of the store that holds the contents: see `Contents.store_id`."""
        rows = await self._database.awaited(lambda do: do("SELECT id FROM workspace_store"))
        return str(rows[0][0]) if rows else None

    async def use_store(self, id_: str) -> None:
        """Note which store holds the contents."""
        await self._database.awaited(
            lambda do: do("INSERT INTO workspace_store VALUES (?) ON CONFLICT DO NOTHING", id_)
        )

    async def has(self, manifest: str) -> bool:
        """Return whether a manifest is kept, and with it all its contents. They are kept for another hour."""

        def work(do: Do) -> bool:
            self._database.serialize(do)
            return _relied_on(do, manifest)

        return await self._database.awaited(work)

    async def missing(self, manifest: Manifest, base: Manifest | None) -> set[str]:
        """Return the contents of a manifest that are not in the store. The others stay for another hour.

        Args:
            base: a manifest whose contents need not be looked up if it is kept.
        """

        def work(do: Do) -> set[str]:
            self._database.serialize(do)
            if _relied_on(do, manifest.id):
                return set()
            new = manifest.digests
            if base and _relied_on(do, base.id):
                new -= base.digests
            return set(new - touched(do, new))

        return await self._database.awaited(work)

    async def open_place(self) -> str:
        """Return a new place for the new contents of one capture."""
        place = secrets.token_hex(8)
        await self._database.awaited(
            lambda do: do("INSERT INTO workspace_places VALUES (?, ?)", place, time.time())
        )
        return place

    async def close_place(self, place: str) -> None:
        """Note that all contents at a place are recorded. Otherwise they are removed after an hour."""
        await self._database.awaited(lambda do: do("DELETE FROM workspace_places WHERE place = ?", place))

    async def kept(self, place: str, sizes: Mapping[str, int]) -> None:
        """Record contents that the store has now at a place. `sizes`: SHA-256 -> bytes in the store.

        If another capture has kept the same content meanwhile, this one is removed later.

        Raises:
            SnapshotsUnavailable: the capture takes longer than an hour.
        """

        def work(do: Do) -> None:
            self._database.serialize(do)
            if not do("SELECT 1 FROM workspace_places WHERE place = ? AND at > 0", place):
                raise SnapshotsUnavailable(
                    "The capture took too long.", hint="Use a faster place as SNAPSHOTS_URL."
                )
            known = touched(do, sizes)
            for digest, size in sizes.items():
                if digest in known:
                    do(
                        "INSERT INTO workspace_removed SELECT ?, sha256 FROM workspace_contents "
                        "WHERE sha256 = ? AND place <> ? ON CONFLICT DO NOTHING",
                        *(place, digest, place),
                    )
                else:
                    row = (digest, place, size, time.time())
                    do("INSERT INTO workspace_contents VALUES (?, ?, ?, ?)", *row)

        if sizes:
            await self._database.awaited(work)

    async def places(self, digests: Iterable[str]) -> dict[str, str]:
        """Return where contents are. Contents that the store does not have are left out."""

        def work(do: Do) -> dict[str, str]:
            rows = in_parts(
                do, "SELECT sha256, place FROM workspace_contents WHERE sha256 IN ({})", set(digests)
            )
            return {str(digest): str(place) for digest, place in rows}

        return await self._database.awaited(work)

    async def add(self, manifest: Manifest, base: Manifest | None) -> bool:
        """Keep a manifest, as its difference from `base` where that is smaller.

        Return False, and keep nothing, if contents that it names were removed since they were found.
        """

        def work(do: Do) -> bool:
            self._database.serialize(do)
            known = do("SELECT dropped FROM workspace_manifests WHERE id = ?", manifest.id)
            if known == [(0,)]:
                do("UPDATE workspace_manifests SET at = ? WHERE id = ?", time.time(), manifest.id)
                return True
            steps_of = "SELECT steps FROM workspace_manifests WHERE id = ? AND dropped = 0"
            found = do(steps_of, base.id) if base else []
            new = manifest.digests - base.digests if base and found else manifest.digests
            if touched(do, new) != new:
                return False
            if known:
                do(
                    "UPDATE workspace_manifests SET at = ?, dropped = 0 WHERE id = ?",
                    *(time.time(), manifest.id),
                )
                return True
            change, steps, on = None, 0, None
            if base and found and found[0][0] < _MOST_STEPS:
                less = base.change_to(manifest)
                if 2 * (len(less.rows) + len(less.deleted)) < len(manifest.entries):
                    change, steps, on = less, found[0][0] + 1, base.id
            change = change or Manifest({}).change_to(manifest)
            packed = zstandard.ZstdCompressor(level=3).compress(change.encode())
            do(
                "INSERT INTO workspace_manifests VALUES (?, ?, ?, ?, ?, 0)",
                *(manifest.id, on, steps, packed, time.time()),
            )
            return True

        if not await self._database.awaited(work):
            return False
        self._remember(manifest.id, manifest)
        return True

    async def manifest(self, name: str) -> Manifest:
        """Return a manifest.

        Raises:
            ManifestMissing: there is none with this id.
        """
        if (cached := self._cached.get(name)) is not None:
            self._cached.move_to_end(name)
            return cached

        def work(do: Do) -> tuple[Manifest, list[bytes]]:
            changes: list[bytes] = []
            at: str | None = name
            while at is not None:
                if (nearest := self._cached.get(at)) is not None:
                    return nearest, changes
                rows = do("SELECT base, change, dropped FROM workspace_manifests WHERE id = ?", at)
                if not rows or (at == name and rows[0][2]):
                    raise manifest_missing(name)
                at = rows[0][0]
                changes.append(bytes(rows[0][1]))
            return Manifest({}), changes

        nearest, changes = await self._database.awaited(work)
        manifest = await asyncio.to_thread(_changed, nearest, changes)
        self._remember(name, manifest)
        return manifest

    def _remember(self, name: str, manifest: Manifest) -> None:
        self._cached[name] = manifest
        self._cached.move_to_end(name)
        while len(self._cached) > 1 and sum(len(one.entries) for one in self._cached.values()) > _MOST_CACHED:
            self._cached.popitem(last=False)


def _changed(manifest: Manifest, changes: Sequence[bytes]) -> Manifest:
    """Return a manifest after changes as stored, the latest change first."""
    for packed in reversed(changes):
        manifest = manifest.with_change(Change.decode(zstandard.ZstdDecompressor().decompress(packed)))
    return manifest


def manifest_missing(name: str) -> ManifestMissing:
    return ManifestMissing(
        f"The snapshot {name[:12]} is not kept any more.",
        hint="Go back to another one. Raise SNAPSHOTS_MAX to keep more of them.",
    )


def in_parts(do: Do, statement: str, values: Collection[Any], *before: Any) -> list[tuple[Any, ...]]:
    """Run a statement for any number of values, which stand for `{}` in it, after other parameters."""
    every = sorted(values)
    rows: list[tuple[Any, ...]] = []
    for at in range(0, len(every), _AT_ONCE):
        part = every[at : at + _AT_ONCE]
        rows += do(statement.format(", ".join("?" * len(part))), *before, *part)
    return rows


def _relied_on(do: Do, manifest: str) -> bool:
    """Note that a capture relies on a manifest. Return whether it is kept."""
    touch = "UPDATE workspace_manifests SET at = ? WHERE id = ? AND dropped = 0 RETURNING id"
    return bool(do(touch, time.time(), manifest))


def touched(do: Do, digests: Collection[str]) -> set[str]:
    """Note that a capture relies on contents. Return those that the store has."""
    statement = "UPDATE workspace_contents SET at = ? WHERE sha256 IN ({}) RETURNING sha256"
    return {str(row[0]) for row in in_parts(do, statement, digests, time.time())}
