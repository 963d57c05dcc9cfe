"""The end of a command that could not be recorded is recorded later, and only for this command."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from libs.sandbox import CommandUnderWay, RecordUnavailable
from libs.sandbox.host.records import log_file
from libs.sandbox.host.records.command_log import CommandRecords, Entry

ONE = Entry.of("thread", "one", b"x")
TWO = Entry.of("thread", "two", b"x")


def test_result_that_cannot_be_written_is_written_later(
    path: Path,
    records: CommandRecords,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(log_file, "_PATIENCE", 0.05)
    for entry in (ONE, TWO):
        records.submit(records.begin, entry).result()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        records.submit(records.end, ONE, "result").result()
        records.submit(records.interrupt, TWO).result()
        assert "cannot be written" in caplog.text
        with pytest.raises(RecordUnavailable, match="database is locked"):
            records.submit(records.find, ONE).result()
    assert records.submit(records.find, ONE).result() == "result"
    records.submit(records.begin, Entry.of("thread", "another", b"x")).result()
    with closing(sqlite3.connect(path)) as other:
        states = other.execute("SELECT state FROM commands ORDER BY began").fetchall()
    assert states == [("ended",), ("interrupted",), ("running",)]


def test_end_that_could_not_be_written_is_not_that_of_a_later_command_with_the_key(
    path: Path, records: CommandRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_file, "_PATIENCE", 0.05)
    for entry in (TWO, ONE):
        records.submit(records.begin, entry).result()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for entry in (TWO, ONE):
            records.submit(records.end, entry, "result").result()
        other.execute("ROLLBACK")
        other.execute("DELETE FROM commands WHERE key = ?", (ONE.key,))  # as a restore does
        refuse = "BEFORE UPDATE ON commands BEGIN SELECT RAISE(ABORT, 'no'); END"
        other.execute(f"CREATE TRIGGER refuse {refuse}")
        assert records.submit(records.begin, ONE).result() is None
        other.execute("DROP TRIGGER refuse")
    records.submit(records.begin, Entry.of("thread", "another", b"x")).result()
    with pytest.raises(CommandUnderWay):
        records.submit(records.find, ONE).result()
