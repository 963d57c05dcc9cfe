"""Deleting a thread removes its snapshots; a copy of a thread gets the files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.settings import Settings, load_settings
from agent.threads.checkpointer import open_threads
from agent.threads.snapshot_store import build_snapshots
from tests.servers.snapshots import Snapshots, noise
from tests.support.workspaces.captured_threads import holding


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.chdir(tmp_path)
    return load_settings(None, sandbox_scope="thread", snapshots_url=str(tmp_path / "snapshots"))


@pytest.fixture
def snapshots(tmp_path: Path, settings: Settings) -> Iterator[Snapshots]:
    made = Snapshots(tmp_path, build_snapshots(settings).database)
    yield made
    made.close()


async def test_deleted_thread_takes_along_what_only_it_needed(
    settings: Settings, snapshots: Snapshots
) -> None:
    common = noise(50_000)
    await snapshots.step("gone", a=noise(100_000), b=common)
    await snapshots.step("gone", a=noise(100_000))
    ticket = await snapshots.step("kept", b=common)
    async with open_threads(settings) as saver:
        await saver.adelete_thread("gone")
    assert await snapshots.ledger.head("gone") is None
    assert 50_000 < snapshots.bytes_at_place() == await snapshots.pruner.size() < 51_000
    await snapshots.read_all((await snapshots.history.files.at("kept", ticket)).id)
    async with open_threads(settings) as saver:
        await saver.adelete_thread("kept")
    assert snapshots.bytes_at_place() == 0


async def test_copy_gets_the_files_at_its_first_run_and_no_content_is_copied(
    settings: Settings, snapshots: Snapshots
) -> None:
    await snapshots.step("source", a=b"before")
    ticket = await snapshots.step("source", a=b"after", b=b"b")
    stored = snapshots.bytes_at_place()
    async with open_threads(settings) as saver:
        await saver.acopy_thread("source", "copy")
    assert not snapshots.root("copy").exists()
    await snapshots.step("source", a=b"later")
    async with open_threads(settings) as saver:
        await saver.adelete_thread("source")
    assert await snapshots.history.arrive("copy", ticket, holding())
    assert (snapshots.root("copy") / "a").read_bytes() == b"after"
    assert (snapshots.root("copy") / "b").read_bytes() == b"b"
    assert snapshots.bytes_at_place() == stored
    assert await snapshots.history.arrive("copy", ticket, holding()) is None, "the files are there already"


async def test_copy_in_a_common_workspace_leaves_the_files_alone(settings: Settings, tmp_path: Path) -> None:
    shared = settings.model_copy(update={"sandbox_scope": "shared"})
    snapshots = Snapshots(tmp_path, build_snapshots(shared).database, shared=True)
    ticket = await snapshots.step("source", a=b"a")
    async with open_threads(shared) as saver:
        await saver.acopy_thread("source", "copy")
    assert await snapshots.history.arrive("copy", ticket, holding()) is None
    snapshots.close()
