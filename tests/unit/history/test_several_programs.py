"""Threads that several programs work on, one after the other or at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from libs.persistence.thread_database import SqliteDatabase
from libs.sandbox.host import CommandRecords
from libs.workspace import WorkspaceStore
from tests.support.programs import python
from tests.support.waiting import eventually
from tests.support.workspaces.captured_threads import CapturedThreads, holding


class Programs:
    """Programs on one workspace and one database, each with its own sandbox."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: list[tuple[CapturedThreads, SqliteDatabase, CommandRecords]] = []

    def begin(self) -> CapturedThreads:
        database = SqliteDatabase(self._folder / "threads.sqlite")
        records = CommandRecords(self._folder / "commands.sqlite")
        threads = CapturedThreads(self._folder, database, shared=True, records=records)
        self._open.append((threads, database, records))
        return threads

    def end(self) -> None:
        """End the latest program."""
        threads, database, records = self._open.pop()
        threads.__exit__()
        records.close()
        database.close()

    def end_all(self) -> None:
        while self._open:
            self.end()


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    made = Programs(tmp_path)
    yield made
    made.end_all()


async def test_turn_that_another_program_began_is_captured_before_its_first_command(
    programs: Programs,
) -> None:
    """As `code-agent run` that ends with a question, and another that carries out the approved command."""
    first = programs.begin()
    first.path("sales").parent.mkdir(parents=True)
    first.path("sales").write_text("of a person")
    begin = await first.history.captures.begin_turn("t")
    asked = await first.history.captures.after_step("t")
    programs.end()

    second = programs.begin()
    await second.history.arrive("t", asked, holding(begin, asked))
    await second.command("rm sales; echo > new")
    await second.history.captures.after_step("t")
    await second.history.go_back("t", begin)
    assert second.files() == {"sales": "of a person"}


OTHER = """
import asyncio, os
from pathlib import Path
from libs.workspace import WorkspaceStore
from tests.support.programs import python
from tests.support.workspaces.captured_threads import CapturedThreads
from libs.persistence.thread_database import SqliteDatabase
from libs.sandbox.host import CommandRecords

async def main():
    folder = Path(os.environ["FOLDER"])
    records = CommandRecords(folder / "commands.sqlite")
    database = SqliteDatabase(folder / "threads.sqlite")
    with CapturedThreads(folder, database, shared=True, records=records) as threads:
        wait = "until test -e own; do sleep 0.05; done"
        await threads.command(f"touch theirs-begins; {wait}; echo > theirs", "u")

asyncio.run(main())
"""


async def test_change_during_another_programs_command_is_kept(programs: Programs, tmp_path: Path) -> None:
    threads = programs.begin()
    begin = await threads.turn("true")
    with python(OTHER, FOLDER=str(tmp_path)) as other:
        wait = "until test -e theirs-begins; do sleep 0.05; done"
        await threads.turn(f"{wait}; echo > own; until test -e theirs; do sleep 0.05; done")
        _, errors = other.communicate(timeout=30)
    assert other.returncode == 0, errors
    moved = await threads.history.go_back("t", begin)
    assert sorted(threads.files()) == ["own", "theirs", "theirs-begins"]
    assert {"/workspace/own", "/workspace/theirs"} <= moved.restored.kept.keys()


async def test_changes_after_the_end_of_a_killed_program_are_the_threads_own(
    programs: Programs, tmp_path: Path
) -> None:
    threads = programs.begin()
    threads.path("x").parent.mkdir(parents=True)
    with python(OTHER, FOLDER=str(tmp_path)) as other:
        await asyncio.to_thread(eventually, threads.path("theirs-begins").exists)
        other.kill()
    begin = await threads.turn("true")
    await threads.turn("echo > own")
    moved = await threads.history.go_back("t", begin)
    assert (sorted(threads.files()), moved.restored.kept) == (["theirs-begins"], {})


@pytest.mark.parametrize("conversation_moved", [False, True])
async def test_return_that_was_cut_off_is_undone_or_finished(
    programs: Programs, conversation_moved: bool
) -> None:
    first = programs.begin()
    one = await first.turn("echo 1 > a")
    two = await first.turn("echo 2 > a")
    first.path("report").write_text("of a person")
    await first.history.go_back("t", one, more_follows=True)
    assert first.files() == {"a": "1\n", "report": "of a person"}
    programs.end()

    second = programs.begin()
    held = holding(one, two)
    await second.history.arrive("t", one if conversation_moved else two, held)
    assert second.files() == {"a": "1\n" if conversation_moved else "2\n", "report": "of a person"}
    second.path("a").write_text("after")
    await second.history.arrive("t", one if conversation_moved else two, held)
    assert second.files()["a"] == "after", "a move is settled once"


@pytest.mark.parametrize("conversation_moved", [False, True])
async def test_half_of_a_return_is_undone_or_finished(
    programs: Programs, monkeypatch: pytest.MonkeyPatch, conversation_moved: bool
) -> None:
    restore = WorkspaceStore.arestore

    async def cut_off(*given: Any, only: set[str], **options: Any) -> None:
        assert only == {"/workspace/a", "/workspace/b", "/workspace/new"}
        await restore(*given, only={"/workspace/a", "/workspace/new"}, **options)
        raise RuntimeError("killed")

    first = programs.begin()
    one = await first.turn("echo 1 > a; echo 1 > b")
    two = await first.turn("echo 2 > a; echo 2 > b; echo 2 > new")
    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="killed"):
        patch.setattr(WorkspaceStore, "arestore", cut_off)
        await first.history.go_back("t", one, more_follows=True)
    assert first.files() == {"a": "1\n", "b": "2\n"}
    programs.end()

    second = programs.begin()
    await second.turn("true", thread="u")  # its capture comes first
    await second.history.arrive("t", one if conversation_moved else two, holding(one, two))
    after = {"a": "2\n", "b": "2\n", "new": "2\n"}
    assert second.files() == ({"a": "1\n", "b": "1\n"} if conversation_moved else after)
