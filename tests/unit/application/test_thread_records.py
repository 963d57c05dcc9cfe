"""Deleting a thread deletes the records of its commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.settings import COMMANDS, load_settings
from agent.threads.checkpointer import open_threads
from libs.sandbox.host.records.command_log import CommandRecords, Entry


async def test_deleted_thread_has_no_command_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    records = CommandRecords(COMMANDS)
    entries = [Entry.of(thread, "key", b"x") for thread in ("gone", "kept")]
    for entry in entries:
        await records.awaited(records.begin, entry)
        await records.awaited(records.end, entry, "printed")
    async with open_threads(load_settings(None)) as saver:
        await saver.adelete_thread("gone")
    assert [await records.awaited(records.find, entry) for entry in entries] == [None, "printed"]
    records.close()
    COMMANDS.unlink()
    COMMANDS.mkdir()
    async with open_threads(load_settings(None)) as saver:
        await saver.adelete_thread("kept")  # works without the file of records
