"""The database beside the checkpoints: one transaction or none, errors that say what to do."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path

import pytest

from libs.persistence.database import Do, SqliteDatabase
from libs.persistence.errors import CheckpointerUnavailable


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "data.sqlite"


def counting(path: Path) -> SqliteDatabase:
    return SqliteDatabase(path, ["CREATE TABLE IF NOT EXISTS t (n INTEGER)"])


def count(do: Do) -> int:
    return int(do("SELECT count(*) FROM t")[0][0])


def test_nothing_is_made_before_it_is_asked(path: Path) -> None:
    database = counting(path)
    assert not path.parent.exists()
    assert database.wait(count) == 0
    database.close()


def test_all_of_it_or_nothing(path: Path) -> None:
    database = counting(path)

    def half(do: Do) -> None:
        do("INSERT INTO t VALUES (1)")
        raise KeyError("stop")

    with pytest.raises(KeyError):
        database.wait(half)
    assert database.wait(count) == 0
    database.close()


def test_it_opens_again(path: Path) -> None:
    database = counting(path)
    database.wait(lambda do: do("INSERT INTO t VALUES (1)"))
    database.close()
    assert database.wait(count) == 1
    database.close()
    database.close()


async def test_cancelling_who_waits_loses_nothing(path: Path) -> None:
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


def test_many_that_open_one_at_once(path: Path) -> None:
    databases = [counting(path) for _ in range(8)]
    for done in [database.submit(lambda do: do("INSERT INTO t VALUES (1)")) for database in databases]:
        done.result()
    assert databases[0].wait(count) == 8
    for database in databases:
        database.close()


def test_a_damaged_file_is_named_with_what_mends_it(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"this is no database" * 100)
    database = counting(path)
    with pytest.raises(CheckpointerUnavailable, match=r"data\.sqlite cannot be used") as refused:
        database.wait(count)
    assert f"mv {path}" in refused.value.hint
    path.unlink()
    assert database.wait(count) == 0
    database.close()


def test_one_that_is_held_is_waited_for_and_then_named(path: Path) -> None:
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
def test_a_file_that_is_removed_takes_no_more(path: Path, replaced: bool) -> None:
    """SQLite would go on writing to what nobody can find any more."""
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


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    database = counting(tmp_path / "file" / "data.sqlite")
    with pytest.raises(CheckpointerUnavailable, match=r"data\.sqlite cannot be used: File exists"):
        database.wait(count)


def test_its_owner_alone_can_read_it(path: Path) -> None:
    database = counting(path)
    database.wait(count)
    assert [each.stat().st_mode & 0o077 for each in (path, path.parent)] == [0, 0]
    database.close()
