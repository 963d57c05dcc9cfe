"""`SqliteDatabase`: transactions, concurrent use, errors with a hint."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path

import pytest

from libs.persistence.persistence_errors import CheckpointerUnavailable
from libs.persistence.thread_database import Do, SqliteDatabase


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "data.sqlite"


def counting(path: Path) -> SqliteDatabase:
    database = SqliteDatabase(path)
    database.needs("CREATE TABLE IF NOT EXISTS t (n INTEGER)")
    return database


def count(do: Do) -> int:
    return int(do("SELECT count(*) FROM t")[0][0])


def test_private_file_is_made_at_its_first_use_and_opened_again(path: Path) -> None:
    database = counting(path)
    assert not path.parent.exists()
    database.wait(lambda do: do("INSERT INTO t VALUES (1)"))
    assert [each.stat().st_mode & 0o077 for each in (path, path.parent)] == [0, 0]
    database.close()

    def half(do: Do) -> None:
        do("INSERT INTO t VALUES (2)")
        raise KeyError("stop")

    with pytest.raises(KeyError):
        database.wait(half)
    assert database.wait(count) == 1, "a failed transaction changes nothing"
    database.close()


async def test_cancelled_caller_loses_no_write(path: Path) -> None:
    database = counting(path)
    held = threading.Event()

    def slow(do: Do) -> None:
        held.wait(10)
        do("INSERT INTO t VALUES (1)")

    waiting = asyncio.create_task(database.awaited(slow))
    await asyncio.sleep(0.05)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    held.set()
    assert await database.awaited(count) == 1
    database.close()


def test_several_databases_open_one_file_at_once(path: Path) -> None:
    databases = [counting(path) for _ in range(8)]
    for done in [database.submit(lambda do: do("INSERT INTO t VALUES (1)")) for database in databases]:
        done.result()
    assert databases[0].wait(count) == 8
    for database in databases:
        database.close()


def test_damaged_file_is_named_with_a_hint(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"this is no database" * 100)
    database = counting(path)
    with pytest.raises(CheckpointerUnavailable, match=r"data\.sqlite cannot be used") as refused:
        database.wait(count)
    assert f"mv {path}" in refused.value.hint
    path.unlink()
    assert database.wait(count) == 0
    database.close()


def test_reason_is_told_if_sqlite_has_ended_the_transaction(path: Path) -> None:
    """As it does if a large write fills the disk."""
    database = counting(path)
    database.wait(lambda do: do("CREATE UNIQUE INDEX one ON t (n)"))

    def ended(do: Do) -> None:
        do("INSERT INTO t VALUES (1)")
        do("INSERT OR ROLLBACK INTO t VALUES (1)")

    with pytest.raises(CheckpointerUnavailable, match="UNIQUE constraint failed"):
        database.wait(ended)
    assert database.wait(count) == 0
    database.close()


@pytest.mark.thorough
def test_locked_file_is_named_with_a_hint(path: Path) -> None:
    database = counting(path)
    database.wait(count)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(CheckpointerUnavailable, match="locked") as refused:
        database.wait(lambda do: do("INSERT INTO t VALUES (1)"))
    assert "end the program that holds it" in refused.value.hint
    other.execute("ROLLBACK")
    other.close()
    database.wait(lambda do: do("INSERT INTO t VALUES (1)"))
    database.close()


@pytest.mark.parametrize("replaced", [False, True])
def test_removed_file_takes_no_more_writes(path: Path, replaced: bool) -> None:
    """Without the check SQLite would write to the removed file."""
    database = counting(path)
    database.wait(count)
    path.rename(path.with_name("away"))
    if replaced:
        path.write_bytes(b"")
    with pytest.raises(CheckpointerUnavailable, match="cannot be used") as refused:
        database.wait(lambda do: do("INSERT INTO t VALUES (1)"))
    assert "removed while it was in use" in refused.value.hint
    database.wait(lambda do: do("INSERT INTO t VALUES (1)"))
    database.close()
    again = counting(path)
    assert again.wait(count) == 1
    again.close()
