"""Going back in a thread that has a workspace of its own."""

from __future__ import annotations

import logging
from itertools import pairwise
from pathlib import Path

import pytest

from libs.workspace import SnapshotsUnavailable
from libs.workspace.history import NoCapture
from tests.support.workspaces.captured_threads import CapturedThreads


async def test_every_change_goes_back_and_forward_again(threads: CapturedThreads) -> None:
    first = await threads.turn("echo 1 > a; echo 1 > b")
    threads.path("notes").write_text("of a person")
    before = threads.files()
    await threads.turn("echo 2 > a; rm b; mkdir d; mv notes d/notes")
    second = await threads.turn("echo 3 > c")
    after = threads.files()

    back = await threads.history.go_back("t", first)
    assert threads.files() == {"a": "1\n", "b": "1\n"}
    assert back.restored.kept == {}
    assert back.instead is None
    again = await threads.history.go_back("t", first)
    assert not again.restored.difference
    await threads.history.go_back("t", second)
    assert threads.files() == after
    # The person's file was there before the second turn, but not at the end of the first.
    await threads.history.go_back("t", None)
    assert threads.files() == {}
    await threads.history.go_back("t", back.before)
    assert threads.files() == after
    assert before["notes"] == after["d/notes"]


async def test_present_is_kept_before_files_come_back(threads: CapturedThreads) -> None:
    first = await threads.turn("echo 1 > a")
    threads.path("a").write_text("unsaved")
    moved = await threads.history.go_back("t", first)
    assert threads.files() == {"a": "1\n"}
    await threads.history.go_back("t", moved.before)
    assert threads.files() == {"a": "unsaved"}


async def test_dry_run_says_the_same_and_changes_nothing(threads: CapturedThreads) -> None:
    first = await threads.turn("echo 1 > a")
    await threads.turn("echo 2 > a; echo 2 > b")
    before = threads.files()
    told = await threads.history.go_back("t", first, dry_run=True)
    assert threads.files() == before
    done = await threads.history.go_back("t", first)
    assert told.restored.difference == done.restored.difference
    assert list(done.restored.difference) == ["/workspace/a", "/workspace/b"]


async def test_turn_without_commands_is_like_the_turn_before(threads: CapturedThreads) -> None:
    talk = await threads.turn()
    work = await threads.turn("echo 1 > a")
    assert not (await threads.history.files.changed("t", None, talk)).difference
    assert (await threads.history.files.changed("t", talk, work)).difference.created == ("/workspace/a",)
    moved = await threads.history.go_back("t", talk)
    assert moved.instead is None
    assert threads.files() == {}


async def test_thread_that_ran_no_command_goes_back_without_a_sandbox(threads: CapturedThreads) -> None:
    first = await threads.turn()
    await threads.turn()
    for ticket in (first, None):
        moved = await threads.history.go_back("t", ticket)
        assert not moved.restored.difference
        assert not threads.sandbox_of("t").running


async def test_step_before_the_first_command_starts_no_sandbox(threads: CapturedThreads) -> None:
    await threads.history.captures.begin_turn("t")
    talk = await threads.history.captures.after_step("t")
    await threads.history.captures.settled("t")
    assert not threads.sandbox_of("t").running
    await threads.turn("echo 1 > a")
    await threads.history.go_back("t", talk)
    assert threads.files() == {}


async def test_turn_shows_what_it_changed_itself(threads: CapturedThreads) -> None:
    first = await threads.turn("echo 1 > a; echo 1 > b")
    threads.path("notes").write_text("of a person")
    second = await threads.turn("echo 2 > a; rm b", "echo 2 > c")
    changed = await threads.history.files.changed("t", first, second)
    assert changed.difference.parts == (("/workspace/c",), ("/workspace/a",), ("/workspace/b",))


async def test_turn_names_what_its_snapshot_leaves_out(threads: CapturedThreads) -> None:
    tickets = [None]
    for command in ("truncate -s 65M big; mkfifo pipe", "echo > a", "truncate -s 66M big; rm pipe"):
        tickets.append(await threads.turn(command))
    big = {"/workspace/big": "larger than 67,108,864 bytes"}
    first, second, third = [
        (await threads.history.files.changed("t", *turn)).not_kept for turn in pairwise(tickets)
    ]
    assert (first, second, third) == (big | {"/workspace/pipe": "a FIFO"}, {}, big)


async def test_failed_capture_falls_back_and_says_so(
    threads: CapturedThreads, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = await threads.turn("echo 1 > a")
    store = tmp_path / "snapshots"
    store.rename(tmp_path / "away")
    store.write_text("a file in the place of the folder")
    with caplog.at_level(logging.WARNING):
        second = await threads.turn("echo 2 > a", "echo 3 > a")
    assert "The workspace of thread t was not captured" in caplog.text
    store.unlink()
    (tmp_path / "away").rename(store)
    third = await threads.turn("echo 4 > a")
    moved = await threads.history.go_back("t", second)
    assert threads.files() == {"a": "1\n"}
    assert moved.instead is not None
    assert "the one before it was used" in moved.instead
    await threads.history.go_back("t", third)
    assert threads.files() == {"a": "4\n"}
    assert (await threads.history.go_back("t", first)).instead is None


async def test_missing_first_capture_is_not_replaced_by_a_later_one(
    threads: CapturedThreads, tmp_path: Path
) -> None:
    store = tmp_path / "snapshots"
    threads.path("a").parent.mkdir(parents=True)
    threads.path("a").write_text("of a person")
    store.write_text("a file in the place of the folder")
    first = await threads.turn("echo 1 > a")
    store.unlink()
    await threads.turn("echo 2 > a")
    for ticket in (None, first):
        with pytest.raises(NoCapture, match="no snapshot"):
            await threads.history.go_back("t", ticket)
    assert threads.files() == {"a": "2\n"}


async def test_going_back_changes_nothing_if_contents_are_missing(
    threads: CapturedThreads, tmp_path: Path
) -> None:
    first = await threads.turn("echo 1 > a; echo 1 > b")
    await threads.turn("echo 2 > a")
    (tmp_path / "snapshots").rename(tmp_path / "away")
    with pytest.raises(SnapshotsUnavailable):
        await threads.history.go_back("t", first)
    assert threads.files() == {"a": "2\n", "b": "1\n"}


async def test_closing_waits_for_the_capture(threads: CapturedThreads) -> None:
    await threads.turn()
    await threads.command("echo 1 > a; seq 300 | xargs -I% sh -c 'echo % > f%'")
    ticket = await threads.history.captures.after_step("t")
    await threads.sandbox_of("t").aclose()
    await threads.command("rm f*; echo 2 > a")
    moved = await threads.history.go_back("t", ticket)
    assert moved.instead is None
    assert len(threads.files()) == 301
