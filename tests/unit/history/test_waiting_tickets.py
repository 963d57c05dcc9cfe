"""Tickets that wait for a capture get one, or a reason why there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from libs.persistence import CheckpointerUnavailable
from libs.persistence.thread_database import SqliteDatabase
from libs.workspace.history import NoCapture
from tests.support.waiting import eventually
from tests.support.workspaces.captured_threads import CapturedThreads


@pytest.fixture
def threads(tmp_path: Path, database: SqliteDatabase) -> Iterator[CapturedThreads]:
    with CapturedThreads(tmp_path, database, shared=False) as made:
        yield made


async def test_files_before_a_command_are_missing_if_the_database_failed_until_the_command(
    threads: CapturedThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the files after the command would count as those before the command."""
    ledger = threads.history.ledger
    explain, failures = ledger.explain, iter(range(2))

    async def fails_twice(thread: str, tickets: Collection[str], why: str | None) -> None:
        if next(failures, None) is not None:
            raise CheckpointerUnavailable("the disk is full", hint="")
        await explain(thread, tickets, why)

    monkeypatch.setattr(ledger, "explain", fails_twice)
    begin = await threads.history.captures.begin_turn("t")
    await threads.command("echo > a")
    await threads.history.captures.after_step("t")
    await threads.history.captures.settled("t")
    with pytest.raises(NoCapture, match="no snapshot of the files at this point"):
        await threads.history.go_back("t", begin)


async def test_tickets_for_a_capture_that_waits_are_kept_when_another_turn_begins(
    threads: CapturedThreads,
) -> None:
    captures = threads.history.captures
    talk = await threads.turn()
    begin = await captures.begin_turn("t")
    command = asyncio.create_task(threads.command("touch begins; until test -e go; do sleep 0.05; done"))
    await asyncio.to_thread(eventually, threads.path("begins").exists)
    step = await captures.after_step("t")
    await captures.go_on("t", talk)
    another = await captures.begin_turn("t")
    threads.path("go").touch()
    await command
    await captures.settled("t")
    for ticket in (begin, step, another):
        at = await threads.history.ledger.at("t", ticket)
        assert (at and at.id, at and at.number is None) == (ticket, False)
