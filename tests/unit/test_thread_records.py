"""A thread that is deleted takes the record of its commands along."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.config import COMMANDS, load_settings
from agent.threads import open_threads
from libs.sandbox.records import CommandRecords, Entry


async def test_what_a_deleted_thread_has_run_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        await saver.adelete_thread("kept")  # is deleted all the same
