"""Keeps manifests in the database, each as its difference from an earlier one, and the sizes of contents."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final

import zstandard

from libs.persistence.thread_database import Database, Do
from libs.workspace.contents import SnapshotsUnavailable
from libs.workspace.manifest import Change, Manifest

__all__ = ["Catalog", "ManifestMissing"]

_MOST_STEPS: Final = 100
"""Differences between a manifest and the whole one that it is based on."""
_MOST_CACHED: Final = 200_000
"""Entries of all manifests that are kept in memory."""
_AT_ONCE: Final = 500
"""Parameters of one statement."""


class ManifestMissing(SnapshotsUnavailable):
    """The database has no such manifest."""


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
            "CREATE TABLE IF NOT EXISTS workspace_manifests (id TEXT PRIMARY KEY, base TEXT, "
            f"steps INTEGER NOT NULL, change {binary} NOT NULL, at DOUBLE PRECISION NOT NULL)",
            "CREATE TABLE IF NOT EXISTS workspace_contents (sha256 TEXT PRIMARY KEY, size BIGINT NOT NULL)",
        )

    async def has(self, manifest: Manifest) -> bool:
        """Return whether a manifest is kept, and with it all its contents."""

        def work(do: Do) -> bool:
            return bool(do("SELECT 1 FROM workspace_manifests WHERE id = ?", manifest.id))

        return await self._database.awaited(work)

    async def missing(self, digests: Iterable[str]) -> set[str]:
        """Return the contents that the store does not have."""
        wanted = list(set(digests))

        def work(do: Do) -> set[str]:
            found: set[str] = set()
            for at in range(0, len(wanted), _AT_ONCE):
                part = wanted[at : at + _AT_ONCE]
                marks = ", ".join("?" * len(part))
                rows = do(f"SELECT sha256 FROM workspace_contents WHERE sha256 IN ({marks})", *part)  # noqa: S608
                found.update(str(row[0]) for row in rows)
            return set(wanted) - found

        return await self._database.awaited(work) if wanted else set()

    async def kept(self, sizes: Mapping[str, int]) -> None:
        """Record contents that the store has now. `sizes`: SHA-256 -> bytes in the store."""

        def work(do: Do) -> None:
            for digest, size in sizes.items():
                do("INSERT INTO workspace_contents VALUES (?, ?) ON CONFLICT DO NOTHING", digest, size)

        if sizes:
            await self._database.awaited(work)

    async def add(self, manifest: Manifest, base: Manifest | None) -> None:
        """Keep a manifest, as its difference from `base` where that is smaller."""

        def work(do: Do) -> None:
            if do("SELECT 1 FROM workspace_manifests WHERE id = ?", manifest.id):
                return
            change, steps, on = None, 0, None
            found = do("SELECT steps FROM workspace_manifests WHERE id = ?", base.id) if base else []
            if base and found and found[0][0] < _MOST_STEPS:
                less = base.change_to(manifest)
                if 2 * (len(less.rows) + len(less.deleted)) < len(manifest.entries):
                    change, steps, on = less, found[0][0] + 1, base.id
            change = change or Manifest({}).change_to(manifest)
            packed = zstandard.ZstdCompressor(level=3).compress(change.encode())
            do(
                "INSERT INTO workspace_manifests VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                *(manifest.id, on, steps, packed, time.time()),
            )

        await self._database.awaited(work)
        self._remember(manifest)

    async def manifest(self, name: str) -> Manifest:
        """Return a manifest.

        Raises:
            ManifestMissing: there is none with this id.
        """
        if (cached := self._cached.get(name)) is not None:
            self._cached.move_to_end(name)
            return cached

        def work(do: Do) -> list[bytes]:
            changes: list[bytes] = []
            at: str | None = name
            while at is not None:
                rows = do("SELECT base, change FROM workspace_manifests WHERE id = ?", at)
                if not rows:
                    raise ManifestMissing(
                        f"The snapshot {name[:12]} is not kept any more.",
                        hint="Restore another capture.",
                    )
                at = rows[0][0]
                changes.append(bytes(rows[0][1]))
            return changes

        manifest = Manifest({})
        for packed in reversed(await self._database.awaited(work)):
            manifest = manifest.with_change(Change.decode(zstandard.ZstdDecompressor().decompress(packed)))
        self._remember(manifest)
        return manifest

    def _remember(self, manifest: Manifest) -> None:
        self._cached[manifest.id] = manifest
        self._cached.move_to_end(manifest.id)
        while len(self._cached) > 1 and sum(len(one.entries) for one in self._cached.values()) > _MOST_CACHED:
            self._cached.popitem(last=False)
