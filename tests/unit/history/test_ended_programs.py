"""What a thread has left running ends when the thread goes back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from libs.persistence.thread_database import SqliteDatabase
from libs.sandbox import RecordUnavailable
from tests.support.workspaces.captured_threads import CapturedThreads, holding


@pytest.fixture
def shared() -> bool:
    return True


def ticking(name: str) -> str:
    """Return a command that leaves a program behind, which writes to a file ten times a second."""
    return f"(while sleep 0.1; do echo >> {name}; done) > /dev/null 2>&1 &"


async def is_written(threads: CapturedThreads, name: str) -> bool:
    """Return whether a program writes to a file."""
    before = threads.files().get(name, "")
    await asyncio.sleep(0.5)
    return threads.files().get(name, "") != before


async def test_background_programs_of_the_thread_alone_end(threads: CapturedThreads) -> None:
    begin = await threads.turn("true")
    await threads.turn(ticking("own"))
    await threads.turn(ticking("other"), thread="u")
    await threads.history.go_back("t", begin, dry_run=True)
    assert await is_written(threads, "own")
    await threads.history.go_back("t", begin)
    assert not await is_written(threads, "own")
    assert await is_written(threads, "other")


async def test_variables_of_the_thread_are_gone_and_its_next_block_says_so(threads: CapturedThreads) -> None:
    begin = await threads.turn("true")
    for thread in ("t", "u"):
        await threads.block("x = 1", thread)
    await threads.history.go_back("t", begin)
    ended = await threads.block("print(x)", "t")
    assert "NameError" in ended.output
    assert "new interpreter" in ended.output
    assert (await threads.block("print(x)", "u")).output == "1\n"


async def left_running(threads: CapturedThreads) -> str:
    """Leave a program running in a turn that goes on from a checkpoint. Return the ticket of that."""
    begin = await threads.turn("true")
    await threads.history.arrive("t", begin, holding(begin))
    await threads.turn(ticking("own"))
    return begin


async def go_back_in_another_program(folder: Path, ticket: str) -> None:
    database = SqliteDatabase(folder / "threads.sqlite")
    with CapturedThreads(folder, database, shared=True) as others:
        await others.history.go_back("t", ticket)
    database.close()


async def test_watched_program_ends_soon_after_another_program_takes_its_thread_back(
    threads: CapturedThreads, tmp_path: Path
) -> None:
    begin = await left_running(threads)
    await threads.history.captures.taken_back.watch("t")
    await go_back_in_another_program(tmp_path, begin)
    async with asyncio.timeout(20):
        while await is_written(threads, "own"):
            pass


@pytest.fixture
async def taken_back(threads: CapturedThreads, tmp_path: Path) -> CapturedThreads:
    """A thread with a background program and a variable, which another program has taken back since."""
    begin = await left_running(threads)
    await threads.block("x = 1", "t")
    await go_back_in_another_program(tmp_path, begin)
    assert await is_written(threads, "own")
    return threads


async def test_programs_in_the_sandbox_of_another_program_end_before_its_next_command(
    taken_back: CapturedThreads,
) -> None:
    await taken_back.command("true")
    assert not await is_written(taken_back, "own")


async def test_blocks_after_another_program_took_the_thread_back_get_a_new_interpreter(
    taken_back: CapturedThreads,
) -> None:
    blocks = [taken_back.block("print(x)", "t") for _ in range(2)]
    assert all("NameError" in ended.output for ended in await asyncio.gather(*blocks))


async def test_command_does_not_run_if_nobody_knows_whether_its_thread_went_back(
    threads: CapturedThreads, database: SqliteDatabase, tmp_path: Path
) -> None:
    await threads.turn("true")
    (tmp_path / "threads.sqlite").rename(tmp_path / "elsewhere")
    with pytest.raises(RecordUnavailable, match="cannot be used"):
        await threads.command("touch ran")
    (tmp_path / "elsewhere").rename(tmp_path / "threads.sqlite")
    await threads.command("touch runs-again")
    assert sorted(threads.files()) == ["runs-again"]
