"""Each moment of a thread has a ticket of its own, in the order of the moments."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from libs.persistence.thread_database import SqliteDatabase
from libs.workspace import Catalog, WorkspaceStore
from libs.workspace.history import NoCapture
from libs.workspace.ledger import Ledger
from tests.support.workspaces.captured_threads import CapturedThreads


@pytest.fixture
def ledger(database: SqliteDatabase) -> Ledger:
    Catalog(database)
    return Ledger(database)


async def test_ticket_is_later_than_the_one_before_although_the_clock_was_set_back(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await ledger.open("t")
    an_hour_ago = time.time_ns() - 3_600_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: an_hour_ago)
    assert before < await ledger.open("t")


async def test_dry_run_leaves_the_thread_where_it_is(threads: CapturedThreads, ledger: Ledger) -> None:
    first = await threads.turn("echo 1 > a")
    second = await threads.turn("echo 2 > a")
    await threads.history.go_back("t", first, dry_run=True)
    assert await ledger.head("t") == second


async def test_going_back_waits_for_a_capture_that_is_under_way(
    threads: CapturedThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = WorkspaceStore.acapture

    async def slow(store: WorkspaceStore, *given: object) -> object:
        await asyncio.sleep(0.5)
        return await capture(store, *given)  # type: ignore[arg-type]

    await threads.turn("echo 1 > a")
    monkeypatch.setattr(WorkspaceStore, "acapture", slow)
    await threads.history.captures.begin_turn("t")
    await threads.command("echo 2 > a")
    ticket = await threads.history.captures.after_step("t")
    assert (await threads.history.go_back("t", ticket)).instead is None
    assert threads.files() == {"a": "2\n"}


async def test_copy_of_a_thread_gets_the_capture_that_was_under_way(
    threads: CapturedThreads, ledger: Ledger
) -> None:
    await threads.turn("echo 1 > a")
    open_ticket = await ledger.open("t")
    await ledger.copy("t", "copy", shared=False)
    async with threads.history.captures.one_at_a_time("t") as workspace:
        await threads.history.captures.keep("t", workspace, [open_ticket])
    assert (await threads.history.go_back("copy", open_ticket)).instead is None
    assert threads.files("copy") == {"a": "1\n"}


async def test_first_capture_of_a_copy_is_none_of_the_source(
    threads: CapturedThreads, ledger: Ledger
) -> None:
    """The thread was copied while its first command waited for an approval."""
    begin = await threads.history.captures.begin_turn("t")
    asked = await threads.history.captures.after_step("t")
    await ledger.copy("t", "copy", shared=False)
    await threads.history.captures.go_on("copy", asked)
    await threads.command("echo copy > a", thread="copy")
    await threads.history.captures.settled("copy")
    assert await ledger.unused("t", asked) == [asked, begin]


async def test_forgotten_ticket_changes_nothing(threads: CapturedThreads, database: SqliteDatabase) -> None:
    first = await threads.turn("echo 1 > a")
    database.wait(lambda do: do("DELETE FROM workspace_tickets"))
    await threads.turn("echo 2 > a")
    with pytest.raises(NoCapture, match="not kept any more"):
        await threads.history.go_back("t", first)
    assert threads.files() == {"a": "2\n"}


async def test_changes_of_a_capture_that_was_not_kept_belong_to_the_next(
    tmp_path: Path, database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*given: object) -> int:
        raise OSError("the disk is full")

    with CapturedThreads(tmp_path, database, shared=True) as threads:
        first = await threads.turn("true")
        with monkeypatch.context() as patch:
            patch.setattr(Ledger, "add", refuse)
            await threads.turn("echo > own")
        await threads.turn("true")
        await threads.history.go_back("t", first)
        assert threads.files() == {}
