"""Stores of captured workspaces, in SQLite databases and folders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from libs.persistence.thread_database import SqliteDatabase
from tests.servers.snapshots import Snapshots
from tests.support.workspaces.captured_threads import CapturedThreads


@pytest.fixture
def shared() -> bool:
    """Whether all threads have one workspace. A file of tests can say so."""
    return False


@pytest.fixture
def threads(tmp_path: Path, database: SqliteDatabase, shared: bool) -> Iterator[CapturedThreads]:
    with CapturedThreads(tmp_path, database, shared=shared) as made:
        yield made


@pytest.fixture
def open_snapshots(tmp_path: Path) -> Iterator[Callable[..., Snapshots]]:
    """Open the same store any number of times, as programs do."""
    with ExitStack() as stack:

        def opened(**options: Any) -> Snapshots:
            made = Snapshots(tmp_path, SqliteDatabase(tmp_path / "names.sqlite"), **options)
            stack.callback(made.close)
            return made

        yield opened


@pytest.fixture
def snapshots(open_snapshots: Callable[..., Snapshots]) -> Snapshots:
    return open_snapshots()
