"""`BackgroundPrune`: after captures, beside them, and at most once a minute."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

import pytest

from libs.sandbox.host import core
from libs.workspace.prune import BackgroundPrune
from tests.servers.snapshots import Snapshots, noise

SIZE = 100_000


async def ended(prune: BackgroundPrune) -> None:
    """Wait until no prune runs."""

    async def wait() -> None:
        if prune._task:
            await asyncio.wait({prune._task})

    await core().run(wait())


async def test_store_is_pruned_after_a_capture_of_changed_files(
    open_snapshots: Callable[..., Snapshots], caplog: pytest.LogCaptureFixture
) -> None:
    prune = BackgroundPrune(open_snapshots().pruner, 3 * SIZE)
    snapshots = open_snapshots(captured=prune.captured)

    async def step() -> None:
        await snapshots.step("1", file=noise(SIZE))
        await ended(prune)

    await step()
    for _ in range(3):
        await step()
    assert await snapshots.pruner.size() > 4 * SIZE, "the first look was less than a minute ago"
    hours_ago = time.time() - 7_200
    for table in ("workspace_manifests", "workspace_contents"):
        snapshots.database.wait(lambda do, table=table: do(f"UPDATE {table} SET at = ?", hours_ago))
    prune._next = 0.0
    await snapshots.history.captures.after_step("1")
    await snapshots.history.captures.settled("1")
    await ended(prune)
    assert await snapshots.pruner.size() > 4 * SIZE, "nothing has changed since the latest capture"
    await step()
    assert await snapshots.pruner.size() < 3 * SIZE
    assert not caplog.records


async def test_store_that_stays_too_large_or_fails_is_told_once(
    open_snapshots: Callable[..., Snapshots], caplog: pytest.LogCaptureFixture
) -> None:
    snapshots = open_snapshots()
    await snapshots.step("1", file=noise(SIZE))
    prune = BackgroundPrune(snapshots.pruner, SIZE // 2)

    async def look() -> None:
        prune._next = 0.0
        await core().run(_call(prune))
        await ended(prune)

    with caplog.at_level(logging.WARNING):
        await look()
        await look()
        assert [record.message.split(":")[0] for record in caplog.records] == [
            "The snapshots of workspaces are larger than SNAPSHOTS_MAX. All of them are younger than an "
            "hour, or the latest of a thread"
        ]
        caplog.clear()
        snapshots.database.close()
        (snapshots.folder / "names.sqlite").unlink()
        (snapshots.folder / "names.sqlite").mkdir()
        await look()
        await look()
    assert len(caplog.records) == 1
    assert "could not be removed" in caplog.text


async def _call(prune: BackgroundPrune) -> None:
    prune.captured()
