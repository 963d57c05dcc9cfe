"""The record of commands: what has ended, what was under way, and what is known after a kill (S16)."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from libs.sandbox import CommandInterrupted, CommandUnderWay, KeyReused, RecordUnavailable
from libs.sandbox import records as module
from libs.sandbox.records import CommandRecords, Entry
from libs.sandbox.strays import owner_label, owner_lives

ROOT = Path(__file__).parents[2]
ONE = Entry.of("thread", "message/call", b"run", b"echo hi")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".code-agent" / "commands.sqlite"


@pytest.fixture
def records(path: Path) -> Iterator[CommandRecords]:
    records = CommandRecords(path)
    yield records
    records.close()


def program(path: Path, *lines: str) -> subprocess.Popen[str]:
    """A program of its own with a record; it tells `ready`, and waits."""
    source = f"""
        from pathlib import Path
        from libs.sandbox.records import CommandRecords, Entry

        records = CommandRecords(Path({str(path)!r}))
        one = Entry.of("thread", "message/call", b"run", b"echo hi")
    """
    text = "\n".join([textwrap.dedent(source), *lines, "print('ready', flush=True)", "input()"])
    process = subprocess.Popen(
        [sys.executable, "-c", text],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def kill(process: subprocess.Popen[str]) -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()


class TestOneCommand:
    def test_it_begins_once_and_its_result_comes_back(self, records: CommandRecords) -> None:
        assert records.wait(records.find, ONE) is None
        assert records.wait(records.begin, ONE) is None
        records.wait(records.end, ONE, "result")
        assert records.wait(records.find, ONE) == "result"
        assert records.wait(records.begin, ONE) == "result"

    def test_while_it_runs_it_does_not_begin_again(self, path: Path, records: CommandRecords) -> None:
        records.wait(records.begin, ONE)
        other = CommandRecords(path)
        for each in (records, other):
            with pytest.raises(CommandUnderWay):
                each.wait(each.begin, ONE)
        records.wait(records.end, ONE, "result")
        assert other.wait(other.begin, ONE) == "result"
        other.close()

    def test_an_interrupted_one_stays_so(self, records: CommandRecords) -> None:
        records.wait(records.begin, ONE)
        records.wait(records.interrupt, ONE)
        for _ in range(2):
            with pytest.raises(CommandInterrupted, match="unknown") as caught:
                records.wait(records.begin, ONE)
            assert "before you repeat" in caught.value.hint

    def test_a_stopped_one_says_so_and_stays_so(self, path: Path, records: CommandRecords) -> None:
        records.wait(records.begin, ONE)
        records.wait(records.stop, ONE)
        other = CommandRecords(path)
        for each in (records, other):
            with pytest.raises(CommandInterrupted, match="stopped while it ran"):
                each.wait(each.begin, ONE)
        other.close()

    def test_one_that_was_not_begun_after_all_can_begin(self, records: CommandRecords) -> None:
        records.wait(records.begin, ONE)
        records.wait(records.withdraw, ONE)
        assert records.wait(records.begin, ONE) is None

    @pytest.mark.parametrize(
        "asked", [(b"run", b"echo ho"), (b"python", b"echo hi"), (b"rune", b"cho hi"), (b"runecho hi",)]
    )
    def test_its_key_is_for_no_other(self, records: CommandRecords, asked: tuple[bytes, ...]) -> None:
        records.wait(records.begin, ONE)
        records.wait(records.end, ONE, "result")
        with pytest.raises(KeyReused, match="Nothing was run"):
            records.wait(records.begin, Entry.of("thread", "message/call", *asked))
        assert records.wait(records.find, ONE) == "result"

    def test_which_have_begun(self, records: CommandRecords) -> None:
        records.wait(records.begin, ONE)
        keys = ["message/call", "other"]
        assert records.wait(records.begun, "thread", keys) == {"message/call"}
        assert records.wait(records.begun, "another thread", keys) == set()


class TestThreads:
    NAMES = ("a", "A", "a/b", "", "~", "~a", "ü" * 300, "x" * 5000, "\ud800", "a\0b", "a\nb")

    def test_each_has_its_own(self, records: CommandRecords) -> None:
        entries = [Entry.of(thread, key, b"x") for thread in self.NAMES for key in self.NAMES]
        for number, entry in enumerate(entries):
            assert records.wait(records.begin, entry) is None
            records.wait(records.end, entry, str(number))
        found = [records.wait(records.find, entry) for entry in entries]
        assert found == [str(number) for number in range(len(entries))]

    def test_nobody_can_name_himself_into_another(self) -> None:
        long = Entry.of("x" * 5000, "k", b"x")
        assert Entry.of(long.thread, "k", b"x").thread != long.thread

    async def test_one_that_is_gone_is_forgotten(self, records: CommandRecords) -> None:
        other = Entry.of("other", "k", b"x")
        for entry in (ONE, other):
            await records.awaited(records.begin, entry)
            await records.awaited(records.end, entry, "result")
        await records.aforget("thread")
        assert await records.awaited(records.find, ONE) is None
        records.forget("other")
        assert await records.awaited(records.find, other) is None


class TestKill:
    """A program that is ended by SIGKILL, right after it was told that something is written."""

    def test_what_was_under_way_is_reported(self, path: Path, records: CommandRecords) -> None:
        process = program(path, "records.wait(records.begin, one)")
        with pytest.raises(CommandUnderWay):
            records.wait(records.begin, ONE)
        kill(process)
        with pytest.raises(CommandInterrupted):
            records.wait(records.begin, ONE)

    def test_what_had_ended_comes_back(self, path: Path, records: CommandRecords) -> None:
        kill(program(path, "records.wait(records.begin, one)", "records.wait(records.end, one, 'ä' * 99999)"))
        assert records.wait(records.begin, ONE) == "ä" * 99999

    @pytest.mark.parametrize("what", ["boot", "namespace"])
    def test_after_a_restart_of_the_machine(self, path: Path, records: CommandRecords, what: str) -> None:
        """Nobody can look its owner up any more: it does not count as running for ever."""
        elsewhere = owner_label().replace(f'"{what}": "', f'"{what}": "x')
        with mock.patch.object(module, "owner_label", lambda: elsewhere):
            before = CommandRecords(path)
            before.wait(before.begin, ONE)
            before.close()
        with pytest.raises(CommandInterrupted):
            records.wait(records.begin, ONE)

    def test_owners(self) -> None:
        assert owner_lives(owner_label())
        assert not owner_lives("no label")
        assert not owner_lives(owner_label().replace('"ticks": ', '"ticks": 1'))


class TestFile:
    def test_only_its_owner_reads_it(self, path: Path, records: CommandRecords) -> None:
        assert not path.parent.exists()
        records.wait(records.begin, ONE)
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        for file in path.parent.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0, file

    def test_it_holds_no_command(self, path: Path, records: CommandRecords) -> None:
        entry = Entry.of("thread", "key", b"run", b"echo very-private")
        records.wait(records.begin, entry)
        records.wait(records.end, entry, "printed")
        records.close()
        assert b"very-private" not in path.read_bytes()
        assert b"printed" in path.read_bytes()

    def test_after_close_it_goes_on(self, records: CommandRecords) -> None:
        records.wait(records.begin, ONE)
        records.close()
        records.wait(records.end, ONE, "result")
        records.close()
        assert records.wait(records.find, ONE) == "result"

    @pytest.mark.parametrize("damage", ["garbage", "folder", "file in the way"])
    def test_one_that_cannot_be_used(self, path: Path, records: CommandRecords, damage: str) -> None:
        if damage == "file in the way":
            path.parent.write_text("")
        elif damage == "folder":
            path.mkdir(parents=True)
        else:
            path.parent.mkdir()
            path.write_bytes(b"this is no database" * 500)
        with pytest.raises(RecordUnavailable, match="Nothing was run") as caught:
            records.wait(records.begin, ONE)
        assert str(path.parent) in str(caught.value)
        assert ("mv " in caught.value.hint) == (damage == "garbage")

    def test_many_make_it_at_once(self, path: Path) -> None:
        for number in range(20):
            made = [CommandRecords(path.with_name(f"{number}.sqlite")) for _ in range(8)]
            begun = [each.submit(each.begin, Entry.of("t", str(at), b"x")) for at, each in enumerate(made)]
            assert [each.result(10) for each in begun] == [None] * 8
            for each in made:
                each.close()

    def test_another_program_that_holds_it_is_waited_for(self, path: Path, records: CommandRecords) -> None:
        records.wait(records.find, ONE)
        with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
            other.execute("BEGIN IMMEDIATE")
            begun = records.submit(records.begin, ONE)
            time.sleep(0.2)
            assert not begun.done()
            other.execute("COMMIT")
            assert begun.result(5) is None

    def test_a_result_that_cannot_be_kept_counts_as_unknown(
        self,
        path: Path,
        records: CommandRecords,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        monkeypatch.setattr(module, "_PATIENCE", 0.05)
        records.wait(records.begin, ONE)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            records.wait(records.end, ONE, "result")
        assert "cannot be written" in caplog.text
        with pytest.raises(CommandInterrupted):
            records.wait(records.begin, ONE)


class TestRetention:
    def test_what_is_too_old_or_too_much_goes_the_oldest_first(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "MOST_RECORDS", 40)
        monkeypatch.setattr(module, "MOST_BYTES", 10_000)
        monkeypatch.setattr(module, "_BETWEEN", 10)
        records = CommandRecords(path)
        entries = [Entry.of("thread", str(number), b"x") for number in range(100)]
        for entry in entries:
            records.wait(records.begin, entry)
            if entry is not entries[0]:
                records.wait(records.end, entry, "small")
        kept = records.wait(records.begun, "thread", [entry.key for entry in entries])
        assert 40 <= len(kept) <= 51
        assert {"0", *map(str, range(60, 100))} <= kept, "the newest, and what still runs"
        for number in range(20):
            entry = Entry.of("thread", f"large {number}", b"x")
            records.wait(records.begin, entry)
            records.wait(records.end, entry, "x" * 1000)
        kept = records.wait(records.begun, "thread", [f"large {number}" for number in range(20)])
        assert "large 19" in kept
        assert len(kept) <= 20
        monkeypatch.setattr(module, "KEPT_SECONDS", 0.0)
        records.close()
        last = Entry.of("thread", "last", b"x")
        records.wait(records.begin, last)
        keys = [entry.key for entry in (*entries, last)]
        assert records.wait(records.begun, "thread", keys) == {"last"}
        records.wait(records.end, last, "")
        records.close()


class Commands(RuleBasedStateMachine):
    """Programs that use one record, one after the other; some are killed. Against what is to be known."""

    KEYS = st.sampled_from(["a", "b", "c"])

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.known: dict[str, tuple[str, str | None]] = {}
        """Key -> what it is, and its result; None: it has none."""
        self.running: set[str] = set()
        self.runs: dict[str, int] = {}
        self.boots = 0
        self.start()

    def start(self) -> None:
        """A program that will have been another process for all later ones."""
        self.boots += 1
        label = owner_label().replace('"ticks": ', f'"ticks": {self.boots}')
        with mock.patch.object(module, "owner_label", lambda: label):
            self.records = CommandRecords(Path(self.folder.name, "commands.sqlite"))
            self.records.wait(self.records.begun, "t", [])

    def teardown(self) -> None:
        self.records.close()
        module._under_way.clear()
        self.folder.cleanup()

    @rule(key=KEYS, what=st.sampled_from(["x", "x", "y"]))
    def begin(self, key: str, what: str) -> None:
        expected: object = None
        if key in self.known:
            digest, result = self.known[key]
            expected = (
                KeyReused
                if digest != what
                else CommandUnderWay
                if key in self.running
                else CommandInterrupted
                if result is None
                else result
            )
        try:
            found: object = self.records.wait(self.records.begin, Entry.of("t", key, what.encode()))
        except (KeyReused, CommandUnderWay, CommandInterrupted) as error:
            found = type(error)
        assert found == expected
        if found is None:
            self.known[key] = what, None
            self.running.add(key)
            self.runs[key] = self.runs.get(key, 0) + 1

    @rule(key=KEYS, how=st.sampled_from(["end", "interrupt", "stop", "withdraw"]), result=st.text())
    def settle(self, key: str, how: str, result: str) -> None:
        if key not in self.running:
            return
        what, _ = self.known[key]
        entry = Entry.of("t", key, what.encode())
        self.running.discard(key)
        if how == "end":
            self.records.wait(self.records.end, entry, result.encode("ascii", "backslashreplace").decode())
            self.known[key] = what, result.encode("ascii", "backslashreplace").decode()
        elif how == "interrupt":
            self.records.wait(self.records.interrupt, entry)
        elif how == "stop":
            self.records.wait(self.records.stop, entry)
        else:
            self.records.wait(self.records.withdraw, entry)
            del self.known[key]
            self.runs[key] -= 1

    @rule(closed=st.booleans())
    def another_program(self, closed: bool) -> None:
        """The next one, after a kill or an end in good order."""
        before = self.records
        if closed:
            before.close()
        self.running.clear()
        module._under_way.clear()
        self.start()
        before.close()

    @rule()
    def forget(self) -> None:
        if not self.running:
            self.records.forget("t")
            self.known.clear()
            self.runs.clear()

    @invariant()
    def nothing_runs_twice(self) -> None:
        assert all(count <= 1 for count in self.runs.values())
        assert self.records.wait(self.records.begun, "t", ["a", "b", "c"]) == self.known.keys()


TestCommands = Commands.TestCase
TestCommands.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


@given(st.lists(st.binary()), st.lists(st.binary()))
def test_different_things_have_different_digests(one: list[bytes], other: list[bytes]) -> None:
    assert (Entry.of("t", "k", *one) == Entry.of("t", "k", *other)) == (one == other)
