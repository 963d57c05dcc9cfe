"""A workspace in a local sandbox, and a store in a SQLite database and a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from libs.persistence.thread_database import SqliteDatabase
from libs.sandbox.host.local_sandbox import LocalSandbox
from libs.workspace import Catalog, Contents, WorkspaceStore


@pytest.fixture
def store(database: SqliteDatabase, tmp_path: Path) -> WorkspaceStore:
    return WorkspaceStore(Catalog(database), Contents(str(tmp_path / "snapshots")), file_max=10_000)


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[LocalSandbox]:
    with LocalSandbox(tmp_path / "workspace") as made:
        made.root.mkdir()
        yield made


@pytest.fixture
def root(sandbox: LocalSandbox) -> Path:
    """The workspace on the host."""
    return sandbox.root
