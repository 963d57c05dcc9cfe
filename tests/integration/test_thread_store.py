"""What threads' programs keep, in SQLite and in Postgres; and that nothing acknowledged is lost (X4, X10)."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from agent.config import ROOT, load_settings
from agent.memory import build_database
from libs.persistence import thread_store
from libs.persistence.database import Database, PostgresDatabase, SqliteDatabase
from libs.persistence.errors import CheckpointerUnavailable
from libs.persistence.memory import MessageMemory, Said
from libs.persistence.thread_store import ThreadStore, TooMuch
from tests.postgres_server import PASSWORD, Postgres
from tests.thread_databases import opened


class TestStore:
    async def test_values(self, database: Database) -> None:
        store = ThreadStore(database)
        await store.put("1", "a", '{"n": 1}')
        await store.put("1", "a", "null")
        await store.put("1", "ä/ö'?%s", '"\\u0000"')
        assert (await store.get("1", "a"), await store.get("2", "a")) == ("null", None)
        assert await store.get("1", "ä/ö'?%s") == '"\\u0000"'
        assert await store.names("1") == ["a", "ä/ö'?%s"]
        assert (await store.delete("1", "a"), await store.delete("1", "a")) == (True, False)

    @pytest.mark.parametrize(
        ("name", "value"),
        [("a", "{"), ("a", ""), ("a", "NaN"), ("a", "[-Infinity]"), ("a", "[" * 500_000), ("a", '"\ud800"'),
         ("a", '"' + "x" * 2**20 + '"'), ("", "1"), ("x" * 201, "1"), ("a\0", "1"), ("\ud800", "1")],
    )  # fmt: skip
    async def test_what_is_no_value(self, database: Database, name: str, value: str) -> None:
        store = ThreadStore(database)
        with pytest.raises(ValueError, match=r".+"):
            await store.put("1", name, value)
        assert await store.names("1") == []
        assert (await store.get("1", name), await store.delete("1", name)) == (None, False)

    async def test_files(self, database: Database) -> None:
        store = ThreadStore(database)
        data = bytes(range(256)) * 50_000
        await store.keep("1", {"a/b.bin": data, "c": b""}, ())
        assert (await store.files("1"))["a/b.bin"] == data
        await store.keep("1", {"c": b"2"}, ("a/b.bin", "never there"))
        assert await store.files("1") == {"c": b"2"}
        for path in ("", "x" * 1_001, "a\0", "\ud800"):
            with pytest.raises(ValueError, match=r".+"):
                await store.keep("1", {"new": b"", path: b""}, ())
        assert await store.files("1") == {"c": b"2"}
        assert await store.files("2") == {}

    async def test_a_thread_keeps_no_more_than_its_part(
        self, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(thread_store, "MOST_KEYS", 3)
        monkeypatch.setattr(thread_store, "MOST_FILES", 3)
        monkeypatch.setattr(thread_store, "MOST_FILE_BYTES", 100)
        store = ThreadStore(database)
        for name in "abc":
            await store.put("1", name, "1")
        with pytest.raises(TooMuch, match="delete some"):
            await store.put("1", "d", "1")
        await store.put("1", "a", "2")
        assert await store.names("1") == ["a", "b", "c"]
        await store.keep("1", {"kept": b"x" * 60}, ())
        for changed in ({"new": b"x" * 60}, dict.fromkeys("abcd", b"")):
            with pytest.raises(TooMuch, match="are kept"):
                await store.keep("1", changed, ("kept",) if len(changed) > 1 else ())
        assert await store.files("1") == {"kept": b"x" * 60}

    async def test_copied_and_forgotten(self, database: Database) -> None:
        store = ThreadStore(database)
        await store.put("1", "a", "1")
        await store.keep("1", {"f": b"1"}, ())
        await store.put("2", "a", "2")
        await store.copy("1", "2")
        await store.forget("1")
        assert (await store.names("1"), await store.files("1")) == ([], {})
        assert (await store.get("2", "a"), await store.files("2")) == ("2", {"f": b"1"})

    async def test_many_at_once_in_two_programs(self, database: Database, another: Database) -> None:
        stores = [ThreadStore(database), ThreadStore(another)]
        await asyncio.gather(
            *(store.put(str(n % 3), str(n), str(n)) for n in range(60) for store in stores),
            *(store.keep("f", {str(n): bytes(1000)}, ()) for n in range(20) for store in stores),
        )
        assert [len(await stores[0].names(str(thread))) for thread in range(3)] == [20, 20, 20]
        assert len(await stores[1].files("f")) == 20


WRITER = """
import asyncio, sys
from libs.persistence.memory import MessageMemory, Said
from libs.persistence.thread_store import ThreadStore
from tests.thread_databases import opened

async def main():
    database = opened(sys.argv[1])
    memory, store = MessageMemory(database), ThreadStore(database)
    n = 0
    while True:
        await memory.keep("1", [Said(str(n), "user", f"message {n}")])
        await store.put("1", "last", str(n))
        await store.keep("1", {"file": str(n).encode(), "large": bytes(100_000)}, ())
        print(n, flush=True)
        n += 1

asyncio.run(main())
"""


def test_a_kill_loses_nothing_that_was_acknowledged(database_url: str) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, database_url], cwd=ROOT, stdout=subprocess.PIPE, env=dict(os.environ)
    )
    assert writer.stdout
    last = int(writer.stdout.readline())
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        last = int(writer.stdout.readline())
    writer.kill()
    writer.wait()
    rest = writer.stdout.read().split(b"\n")[:-1]
    last = int(rest[-1]) if rest else last
    writer.stdout.close()

    async def look() -> None:
        database = opened(database_url)
        memory, store = MessageMemory(database), ThreadStore(database)
        kept = [each.text for each in await memory.last("1", last + 10)]
        assert kept[: last + 1] == [f"message {n}" for n in range(last + 1)]
        assert int(json.loads(await store.get("1", "last") or "-1")) >= last
        assert int((await store.files("1"))["file"]) >= last
        await memory.keep("1", [Said("on", "user", "it goes on")])
        database.close()

    asyncio.run(look())


class TestPostgres:
    async def test_it_is_used_in_production_alone(self, postgres_server: Postgres) -> None:
        address = postgres_server.database()
        kinds = {
            env: build_database(load_settings(None, app_env=env, database_url=address)).kind
            for env in ("development", "production")
        }
        assert kinds == {"development": "sqlite", "production": "postgres"}

    async def test_it_is_found_again_after_a_restart(self, postgres_server: Postgres) -> None:
        database = PostgresDatabase(postgres_server.database())
        store = ThreadStore(database)
        await store.put("1", "a", "1")
        postgres_server.end()
        with pytest.raises(CheckpointerUnavailable) as refused:
            await store.get("1", "a")
        assert PASSWORD not in str(refused.value) + refused.value.hint
        postgres_server.start()
        assert await store.get("1", "a") == "1"
        database.close()

    async def test_one_that_is_not_there_is_named_without_its_password(self, tmp_path: Path) -> None:
        database = PostgresDatabase(f"postgresql://tester:{PASSWORD}@/none?host={tmp_path}")
        with pytest.raises(CheckpointerUnavailable, match="DATABASE_URL cannot be used") as refused:
            await ThreadStore(database).get("1", "a")
        assert PASSWORD not in str(refused.value) + refused.value.hint
        database.close()

    async def test_a_table_that_another_program_holds_is_not_waited_for_for_ever(
        self, postgres_server: Postgres
    ) -> None:
        address = postgres_server.database()
        database = PostgresDatabase(address)
        store = ThreadStore(database)
        await store.put("1", "a", "1")
        with psycopg.connect(address) as other:
            other.execute("LOCK TABLE thread_values")
            with pytest.raises(CheckpointerUnavailable, match="lock timeout"):
                await store.put("1", "a", "2")
        assert await store.get("1", "a") == "1"
        database.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MB."""
    assert os.geteuid() == 0, "only root can mount a small disk"
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", tmp_path], check=True)
    yield tmp_path
    subprocess.run(["umount", tmp_path], check=True)


async def test_a_disk_that_is_full(small_disk: Path) -> None:
    database = SqliteDatabase(small_disk / "memory.sqlite")
    store = ThreadStore(database)
    await store.put("1", "a", "1")
    with pytest.raises(CheckpointerUnavailable, match="full") as refused:
        await store.keep("1", {"large": os.urandom(2_000_000)}, ())
    assert "free some disk" in refused.value.hint
    assert (await store.get("1", "a"), await store.files("1")) == ("1", {})
    await store.put("1", "a", "2")
    database.close()
