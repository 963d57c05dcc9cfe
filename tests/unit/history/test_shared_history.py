"""Going back in a thread whose workspace belongs to other threads and to persons, too."""

from __future__ import annotations

import asyncio
import os

import pytest

from libs.persistence import CheckpointerUnavailable
from libs.workspace.ledger import Ledger
from tests.support.workspaces.captured_threads import CapturedThreads, later


@pytest.fixture
def shared() -> bool:
    return True


async def test_only_own_changes_go_back(threads: CapturedThreads) -> None:
    first = await threads.turn("echo 1 > own; echo 1 > theirs; echo 1 > persons")
    await threads.turn("echo 2 > own; mkdir d; echo 2 > d/own; rm -f none")
    await threads.turn("echo other > theirs; echo other > new", thread="u")
    threads.path("persons").write_text("person")
    threads.path("report").write_text("person")
    moved = await threads.history.go_back("t", first)
    assert threads.files() == {
        "own": "1\n",
        "theirs": "other\n",
        "new": "other\n",
        "persons": "person",
        "report": "person",
    }
    assert moved.restored.kept == dict.fromkeys(
        ("/workspace/new", "/workspace/persons", "/workspace/report", "/workspace/theirs"),
        "it was changed by somebody else",
    )


async def test_own_file_that_somebody_changed_since_is_kept(threads: CapturedThreads) -> None:
    first = await threads.turn("echo 1 > a; echo 1 > b; echo 1 > c")
    await threads.turn("echo 2 > a; echo 2 > b; echo 2 > c")
    threads.path("a").write_text("person")
    await threads.turn("echo other > b", thread="u")
    await threads.turn("echo 3 > a")
    moved = await threads.history.go_back("t", first)
    assert threads.files() == {"a": "3\n", "b": "other\n", "c": "1\n"}
    assert moved.restored.kept == dict.fromkeys(
        ("/workspace/a", "/workspace/b"), "somebody else has changed it, too"
    )


async def test_fifo_in_the_place_of_an_own_file_is_kept_if_somebody_else_may_have_made_it(
    threads: CapturedThreads,
) -> None:
    first = await threads.turn("echo 1 > a; echo 1 > b")
    await threads.turn("rm a b; mkfifo b")
    os.mkfifo(threads.path("a"))
    moved = await threads.history.go_back("t", first)
    assert (threads.files(), threads.path("a").is_fifo()) == ({"b": "1\n"}, True)
    assert moved.restored.kept == {"/workspace/a": "somebody else may have put it there: a FIFO"}


async def test_change_that_the_ledger_could_not_note_at_first_goes_back(
    threads: CapturedThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The walk of the failed capture has told when the file was deleted, and later walks do not."""

    async def fails(*_: object) -> None:
        raise CheckpointerUnavailable("the database does not answer", hint="")

    first = await threads.turn("mkdir d; echo 1 > d/a")
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "latest", fails)
        await threads.turn("rm d/a")
    moved = await threads.history.go_back("t", first)
    assert (threads.files(), moved.restored.kept) == ({"d/a": "1\n"}, {})


async def test_moved_folder_goes_back_with_all_that_it_holds(threads: CapturedThreads) -> None:
    """A move changes no time of what the folder holds."""
    for name in ("d", "e"):
        threads.path(f"{name}/deep").mkdir(parents=True)
        threads.path(f"{name}/deep/file").write_text(name)
    before = threads.files()
    begin = await threads.turn("true")
    await threads.turn("mv d/deep new; rm -r e; mv d e; mkdir e/deep; mv new e/deep/deep")
    moved = await threads.history.go_back("t", begin)
    assert threads.files() == before
    assert not moved.restored.kept


async def test_change_during_commands_of_two_threads_belongs_to_none(threads: CapturedThreads) -> None:
    first = await threads.turn("echo 1 > a; echo 1 > b")
    await threads.history.captures.begin_turn("t")
    await threads.history.captures.begin_turn("u")
    await asyncio.gather(
        threads.command("sleep 0.5; echo 2 > a; sleep 0.5"),
        threads.command("sleep 1; sleep 1", "u"),
    )
    await threads.history.captures.after_step("t")
    await threads.history.captures.settled("t")
    await later()
    await threads.turn("echo 2 > b")
    moved = await threads.history.go_back("t", first)
    assert threads.files() == {"a": "2\n", "b": "1\n"}
    assert list(moved.restored.kept) == ["/workspace/a"]


async def test_capture_does_not_wait_for_another_threads_command(threads: CapturedThreads) -> None:
    await threads.turn("echo 1 > a")
    await threads.history.captures.begin_turn("u")
    long = asyncio.ensure_future(threads.command("sleep 60 || true", "u"))
    try:
        first = await asyncio.wait_for(threads.turn("echo 2 > a"), 20)
        await threads.turn("echo 3 > b")
        moved = await threads.history.go_back("t", first)
        assert not long.done()
        # The other thread's command may have written `b`.
        assert list(moved.restored.kept) == ["/workspace/b"]
    finally:
        long.cancel()
        await asyncio.wait({long})


async def test_undo_brings_back_own_changes_alone(threads: CapturedThreads) -> None:
    first = await threads.turn("echo 1 > a")
    await threads.turn("echo 2 > a; echo 2 > b")
    after = threads.files()
    moved = await threads.history.go_back("t", first)
    await later()
    threads.path("report").write_text("person")
    await threads.turn("echo other > c", thread="u")
    back = await threads.history.go_back("t", moved.before)
    assert threads.files() == {**after, "report": "person", "c": "other\n"}
    assert set(back.restored.kept) == {"/workspace/report", "/workspace/c"}


async def test_threads_go_back_at_once(threads: CapturedThreads) -> None:
    """The captures before and after belong together: no thread counts the other's return as a change."""
    first = {}
    for thread in ("t", "u"):
        first[thread] = await threads.turn(f"for i in $(seq 50); do echo 1 > {thread}$i; done", thread=thread)
    before = threads.files()
    for thread in ("t", "u"):
        await threads.turn(f"for i in $(seq 50); do echo 2 > {thread}$i; done", thread=thread)
    after = threads.files()
    moved = await asyncio.gather(*(threads.history.go_back(thread, first[thread]) for thread in ("t", "u")))
    assert threads.files() == before
    await asyncio.gather(
        *(threads.history.go_back(thread, each.before) for thread, each in zip("tu", moved, strict=True))
    )
    assert threads.files() == after
