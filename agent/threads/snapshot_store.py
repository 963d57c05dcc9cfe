"""Opens what keeps the captured workspaces of threads: its database, and the place of the contents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.settings import WORKSPACES, Settings
from libs.persistence.thread_database import Database, PostgresDatabase, SqliteDatabase

if TYPE_CHECKING:
    from libs.workspace import Catalog, Contents
    from libs.workspace.ledger import Ledger
    from libs.workspace.prune import Pruner

__all__ = ["SnapshotStore", "build_snapshots", "kept_snapshots"]


@dataclass(frozen=True)
class SnapshotStore:
    """Everything that names and holds captured workspaces."""

    database: Database
    catalog: Catalog
    contents: Contents
    ledger: Ledger
    pruner: Pruner


def build_snapshots(settings: Settings) -> SnapshotStore:
    """Build the store. The database, a file or Postgres if configured, is opened at its first use.

    Raises:
        SnapshotsUnavailable: SNAPSHOTS_URL is not valid.
    """
    from libs.workspace import Catalog, Contents
    from libs.workspace.ledger import Ledger
    from libs.workspace.prune import Pruner

    database = PostgresDatabase(url) if (url := settings.postgres_url) else SqliteDatabase(WORKSPACES)
    catalog, contents = Catalog(database), Contents(settings.snapshots_url)
    return SnapshotStore(database, catalog, contents, Ledger(database), Pruner(database, catalog, contents))


@asynccontextmanager
async def kept_snapshots(settings: Settings) -> AsyncIterator[SnapshotStore | None]:
    """Open the store for a short time; None if nothing was ever kept.

    Raises:
        SnapshotsUnavailable: SNAPSHOTS_URL is not valid.
    """
    if settings.postgres_url is None and not await asyncio.to_thread(WORKSPACES.exists):
        yield None
        return
    store = await asyncio.to_thread(build_snapshots, settings)
    try:
        yield store
    finally:
        await asyncio.to_thread(store.database.close)
