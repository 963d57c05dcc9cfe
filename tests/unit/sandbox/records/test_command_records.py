"""The command log: commands that have ended, that run, and that a kill interrupted."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.sandbox import CommandInterrupted, CommandUnderWay, RecordUnavailable
from libs.sandbox.host.records import FILE, Once, log_file
from libs.sandbox.host.records.command_log import CommandRecords, Entry
from libs.sandbox.process_owner import owner_label

ONE = Entry.of("thread", "message/call", b"run", b"echo hi")


class TestThreads:
    def test_each_thread_has_its_own_keys(self, records: CommandRecords) -> None:
        names = ("a", "A", "a/b", "", "~a", "ü" * 300, "x" * 5000, "\ud800", "a\0b", "a\nb")
        entries = [Entry.of(thread, key, b"x") for thread in names for key in names]
        for number, entry in enumerate(entries):
            assert records.submit(records.begin, entry).result() is None
            records.submit(records.end, entry, str(number)).result()
        found = [records.submit(records.find, entry).result() for entry in entries]
        assert found == [str(number) for number in range(len(entries))]
        assert records.submit(records.begun, "another", list(names)).result() == set()
        # A thread id that looks like a digest is not another thread.
        long = Entry.of("x" * 5000, "k", b"x")
        assert Entry.of(long.thread, "k", b"x").thread != long.thread


class TestKill:
    """See also `test_program_killed_with_sigkill_repeats_nothing`."""

    @pytest.mark.parametrize("what", ["boot", "namespace"])
    def test_command_of_an_unknown_owner_counts_as_interrupted(
        self, path: Path, records: CommandRecords, what: str
    ) -> None:
        """The owner cannot be looked up any more, so the command does not count as running for ever."""
        elsewhere = owner_label().replace(f'"{what}": "', f'"{what}": "x')
        with mock.patch.object(log_file, "owner_label", lambda: elsewhere):
            before = CommandRecords(path)
            before.submit(before.begin, ONE).result()
            before.close()
        with pytest.raises(CommandInterrupted):
            records.submit(records.begin, ONE).result()


class TestOtherPrograms:
    @pytest.fixture
    def other(self, path: Path) -> Iterator[CommandRecords]:
        """Return the log as another program sees it, which lives."""
        elsewhere = owner_label().replace("}", ', "other": 1}')
        with mock.patch.object(log_file, "owner_label", lambda: elsewhere):
            records = CommandRecords(path)
            records.submit(records.begun, "", []).result()
        yield records
        records.close()

    async def test_only_commands_in_the_same_workspace_are_returned(
        self, records: CommandRecords, other: CommandRecords
    ) -> None:
        for workspace in ("/here", "/there"):
            await other.awaited(other.begin, Entry.of(workspace, "key", b"x"), workspace)
        found = await records.of_other_programs(0.0, "/here")
        assert [thread for thread, _, _ in found] == ["/here"]
        assert await other.of_other_programs(0.0, "/here") == []

    async def test_command_begins_when_it_has_the_lock(
        self, records: CommandRecords, other: CommandRecords
    ) -> None:
        """Else the time of a command that waits would cover the command that holds the lock."""
        lock = asyncio.Lock()

        @asynccontextmanager
        async def alone() -> AsyncIterator[None]:
            async with lock:
                yield

        async def work() -> tuple[dict[str, Any], bytes]:
            return {}, b""

        once = Once(mock.Mock(running=True), other, lambda: "thread", None, alone=alone)
        async with lock:
            waits = asyncio.ensure_future(once.do("key", ["change"], FILE, work))
            await asyncio.sleep(0.05)
            assert await records.of_other_programs(0.0, "") == []
        await waits
        assert len(await records.of_other_programs(0.0, "")) == 1


class TestFile:
    async def test_file_of_an_earlier_version_is_completed(self, path: Path, records: CommandRecords) -> None:
        """Its commands may have changed any workspace."""
        path.parent.mkdir()
        with closing(sqlite3.connect(path)) as earlier, earlier:
            earlier.execute(
                "CREATE TABLE commands (id INTEGER PRIMARY KEY, thread TEXT NOT NULL, key TEXT NOT NULL, "
                "digest TEXT NOT NULL, state TEXT NOT NULL, owner TEXT NOT NULL, began REAL NOT NULL, "
                "size INTEGER NOT NULL DEFAULT 0, result TEXT, UNIQUE (thread, key))"
            )
            row = ("old", "key", "", "ended", "gone", 5.0)
            earlier.execute(
                "INSERT INTO commands (thread, key, digest, state, owner, began) VALUES (?, ?, ?, ?, ?, ?)",
                row,
            )
        assert await records.of_other_programs(0.0, "/here") == [("old", 5.0, None)]
        assert records.submit(records.begin, ONE, "/here").result() is None

    def test_only_the_owner_can_read_the_file(self, path: Path, records: CommandRecords) -> None:
        assert not path.parent.exists()
        records.submit(records.begin, ONE).result()
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        for file in path.parent.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0, file

    def test_file_does_not_contain_the_command(self, path: Path, records: CommandRecords) -> None:
        entry = Entry.of("thread", "key", b"run", b"echo very-private")
        records.submit(records.begin, entry).result()
        records.submit(records.end, entry, "printed").result()
        records.close()
        assert b"very-private" not in path.read_bytes()
        assert b"printed" in path.read_bytes()

    @pytest.mark.parametrize("damage", ["garbage", "folder", "file in the way"])
    def test_unusable_file_is_an_error_with_a_hint(
        self, path: Path, records: CommandRecords, damage: str
    ) -> None:
        if damage == "file in the way":
            path.parent.write_text("")
        elif damage == "folder":
            path.mkdir(parents=True)
        else:
            path.parent.mkdir()
            path.write_bytes(b"this is no database" * 500)
        with pytest.raises(RecordUnavailable, match="Nothing was run") as caught:
            records.submit(records.begin, ONE).result()
        assert str(path.parent) in str(caught.value)
        assert ("mv " in caught.value.hint) == (damage == "garbage")

    def test_many_programs_create_the_file_at_once(self, path: Path) -> None:
        for number in range(5):
            made = [CommandRecords(path.with_name(f"{number}.sqlite")) for _ in range(8)]
            begun = [each.submit(each.begin, Entry.of("t", str(at), b"x")) for at, each in enumerate(made)]
            assert [each.result(10) for each in begun] == [None] * 8
            for each in made:
                each.close()


class TestRetention:
    def test_old_records_and_the_oldest_over_the_limits_are_removed(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(log_file, "MOST_RECORDS", 40)
        monkeypatch.setattr(log_file, "MOST_BYTES", 10_000)
        monkeypatch.setattr(log_file, "_BETWEEN", 10)
        records = CommandRecords(path)
        entries = [Entry.of("thread", str(number), b"x") for number in range(100)]
        for entry in entries:
            records.submit(records.begin, entry).result()
            if entry is not entries[0]:
                records.submit(records.end, entry, "small").result()
        kept = records.submit(records.begun, "thread", [entry.key for entry in entries]).result()
        assert 40 <= len(kept) <= 51
        assert {"0", *map(str, range(60, 100))} <= kept, "the newest, and what still runs"
        for number in range(20):
            entry = Entry.of("thread", f"large {number}", b"x")
            records.submit(records.begin, entry).result()
            records.submit(records.end, entry, "x" * 1000).result()
        kept = records.submit(records.begun, "thread", [f"large {number}" for number in range(20)]).result()
        assert "large 19" in kept
        assert len(kept) <= 20
        monkeypatch.setattr(log_file, "KEPT_SECONDS", 0.0)
        records.close()
        last = Entry.of("thread", "last", b"x")
        records.submit(records.begin, last).result()
        keys = [entry.key for entry in (*entries, last)]
        assert records.submit(records.begun, "thread", keys).result() == {"last"}
        records.submit(records.end, last, "").result()
        records.close()


@given(st.lists(st.binary()), st.lists(st.binary()))
def test_different_commands_have_different_digests(one: list[bytes], other: list[bytes]) -> None:
    assert (Entry.of("t", "k", *one) == Entry.of("t", "k", *other)) == (one == other)


def test_running_command_does_not_begin_through_another_log_object(
    path: Path, records: CommandRecords
) -> None:
    records.submit(records.begin, ONE).result()
    other = CommandRecords(path)
    for each in (records, other):
        with pytest.raises(CommandUnderWay):
            each.submit(each.begin, ONE).result()
    records.submit(records.end, ONE, "result").result()
    assert other.submit(other.begin, ONE).result() == "result"
    other.close()
