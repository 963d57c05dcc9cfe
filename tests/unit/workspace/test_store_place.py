"""The database knows at which place its contents are."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from libs.persistence.thread_database import SqliteDatabase
from libs.sandbox.host.local_sandbox import LocalSandbox
from libs.workspace import Catalog, Contents, SnapshotsUnavailable, WorkspaceStore
from libs.workspace.ledger import Ledger
from libs.workspace.prune import Pruner


def at(database: SqliteDatabase, place: Path) -> WorkspaceStore:
    return WorkspaceStore(Catalog(database), Contents(str(place)))


@pytest.mark.parametrize("gone", [False, True], ids=["another place", "the place is gone"])
def test_other_place_is_refused_until_the_earlier_snapshots_are_forgotten(
    database: SqliteDatabase, sandbox: LocalSandbox, root: Path, tmp_path: Path, gone: bool
) -> None:
    Ledger(database)  # as in every program: all tables are made with the first use of the database
    (root / "a").write_text("a")
    first, second = tmp_path / "first", tmp_path / "second"
    kept = at(database, first).capture(sandbox).id
    if gone:
        shutil.rmtree(first)
        second = first
    with pytest.raises(SnapshotsUnavailable, match="not at SNAPSHOTS_URL") as caught:
        at(database, second).capture(sandbox)
    assert "snapshots forget" in caught.value.hint
    if not gone:
        assert at(database, first).read(kept, "/workspace/a") == b"a"
    asyncio.run(Pruner(database, Catalog(database), Contents(str(second))).forget_all())
    again = at(database, second)
    assert again.read(again.capture(sandbox).id, "/workspace/a") == b"a"


def test_place_that_moved_with_its_contents_is_the_same(
    database: SqliteDatabase, sandbox: LocalSandbox, root: Path, tmp_path: Path
) -> None:
    (root / "a").write_text("a")
    kept = at(database, tmp_path / "first").capture(sandbox).id
    (tmp_path / "first").rename(tmp_path / "second")
    assert at(database, tmp_path / "second").read(kept, "/workspace/a") == b"a"
