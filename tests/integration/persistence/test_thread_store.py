"""Tests values and files of threads on SQLite and Postgres; nothing acknowledged is lost."""

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

from agent.settings import ROOT
from libs.persistence import FileContent, mode_of, thread_store
from libs.persistence.persistence_errors import CheckpointerUnavailable
from libs.persistence.thread_database import Database, PostgresDatabase, SqliteDatabase
from libs.persistence.thread_memory import MessageMemory, Said
from libs.persistence.thread_store import ThreadStore, TooMuch
from tests.servers.postgres_server import PASSWORD, Postgres
from tests.servers.thread_databases import both_databases, opened


class TestStore:
    @both_databases
    async def test_values(self, database: Database) -> None:
        store = ThreadStore(database)
        await store.put("1", "a", '{"n": 1}')
        await store.put("1", "a", "null")
        await store.put("1", "ä/ö'?%s", '"\\u0000"')
        assert (await store.get("1", "a"), await store.get("2", "a")) == ("null", None)
        assert await store.get("1", "ä/ö'?%s") == '"\\u0000"'
        assert await store.names("1") == ["a", "ä/ö'?%s"]
        assert (await store.delete("1", "a"), await store.delete("1", "a")) == (True, False)

    async def test_invalid_values_and_keys_are_refused(self, database: Database) -> None:
        store = ThreadStore(database)
        large = '"' + "x" * 2**20 + '"'
        for value in ("{", "", "NaN", "[-Infinity]", "[" * 500_000, '"\ud800"', large):
            with pytest.raises(ValueError, match=r".+"):
                await store.put("1", "a", value)
        for name in ("", "x" * 201, "a\0", "\ud800"):
            with pytest.raises(ValueError, match=r".+"):
                await store.put("1", name, "1")
            assert (await store.get("1", name), await store.delete("1", name)) == (None, False)
        assert await store.names("1") == []

    @both_databases
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

    @both_databases
    async def test_earlier_files_and_values_are_brought_back(self, database: Database) -> None:
        store = ThreadStore(database)
        await store.keep("1", {"a": bytes(range(256)), "b": b"", "c": b"1"}, ())
        await store.put("1", "n", "1")
        await store.put("1", "m", "1")
        parts = await store.parts("1", [("a", 0, 2), ("a", 250, 100), ("b", 0, 0), ("gone", 0, 5)])
        assert parts == [b"\0\1", bytes(range(250, 256)), b"", b""]
        await store.bring("1", {"a": None, "b": b"2"}, {"n": "2", "m": None})
        assert await store.files("1") == {"b": b"2", "c": b"1"}
        assert await store.values("1") == {"n": "2"}

    @both_databases
    async def test_modes_of_files(self, database: Database) -> None:
        store = ThreadStore(database)

        async def modes(thread: str) -> dict[str, int]:
            return {path: mode_of(content) for path, content in (await store.files(thread)).items()}

        await store.keep(
            "1", {"run": FileContent(b"1", 0o755), "plain": b"2", "there": FileContent(b"3", 0o600)}, ()
        )
        await store.keep("2", {"there": b"4"}, ())
        await store.copy("1", "2")
        assert await modes("2") == {"run": 0o755, "plain": 0o644, "there": 0o644}
        await store.keep("1", {"plain": FileContent(b"2", 0o755), "there": b"3"}, ("run",))
        assert await modes("1") == {"plain": 0o755, "there": 0o644}
        await store.forget("2")
        await store.keep("2", {"run": b"1"}, ())
        assert await modes("2") == {"run": 0o644}

    async def test_limits_of_a_thread(self, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
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

    @both_databases
    async def test_copy_and_forget(self, database: Database) -> None:
        store = ThreadStore(database)
        await store.put("1", "a", "1")
        await store.keep("1", {"f": b"1"}, ())
        await store.put("2", "a", "2")
        await store.copy("1", "2")
        await store.forget("1")
        assert (await store.names("1"), await store.files("1")) == ([], {})
        assert (await store.get("2", "a"), await store.files("2")) == ("2", {"f": b"1"})


WRITER = """
import asyncio, sys
from libs.persistence.thread_memory import MessageMemory, Said
from libs.persistence.thread_store import ThreadStore
from tests.servers.thread_databases import opened

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


def test_kill_loses_nothing_acknowledged(database_url: str) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, database_url], cwd=ROOT, stdout=subprocess.PIPE, env=dict(os.environ)
    )
    assert writer.stdout
    last = int(writer.stdout.readline())
    deadline = time.monotonic() + 1
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
    @pytest.mark.thorough
    async def test_postgres_restart_is_survived(self, postgres_server: Postgres) -> None:
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

    @pytest.mark.thorough
    async def test_locked_table_is_not_waited_for_for_ever(self, postgres_server: Postgres) -> None:
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


@pytest.mark.thorough
async def test_full_disk_loses_nothing(small_disk: Path) -> None:
    database = SqliteDatabase(small_disk / "memory.sqlite")
    store = ThreadStore(database)
    await store.put("1", "a", "1")
    with pytest.raises(CheckpointerUnavailable, match="full") as refused:
        await store.keep("1", {"large": os.urandom(2_000_000)}, ())
    assert "free some disk" in refused.value.hint
    assert (await store.get("1", "a"), await store.files("1")) == ("1", {})
    await store.put("1", "a", "2")
    database.close()
