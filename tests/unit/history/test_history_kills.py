"""The program is killed in the middle of captures and returns of a thread."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from libs.persistence.thread_database import SqliteDatabase
from tests.support.programs import python
from tests.support.workspaces.captured_threads import CapturedThreads

KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from libs.persistence.thread_database import SqliteDatabase
from libs.workspace import Catalog, Contents
from libs.workspace.ledger import Ledger
from tests.support.workspaces.captured_threads import CapturedThreads

folder = Path(os.environ["FOLDER"])

def kill(*given, **named):
    os.kill(os.getpid(), signal.SIGKILL)

def kill_at():
    owner, method = os.environ["MOMENT"].split(".")
    setattr(globals()[owner], method, kill)

async def main():
    shared = os.environ["ACTION"] == "return"
    with CapturedThreads(folder, SqliteDatabase(folder / "threads.sqlite"), shared=shared) as threads:
        first = await threads.turn("echo 1 > a; echo 1 > b")
        if os.environ["ACTION"] == "capture":
            await threads.history.captures.begin_turn("t")
            await threads.command("echo 2 > a; echo 2 > b")
            kill_at()
            await threads.history.captures.after_step("t")
            await threads.history.captures.settled("t")
        else:
            await threads.turn("echo 2 > a; echo 2 > b")
            print(first, flush=True)
            kill_at()
            await threads.history.go_back("t", first)

asyncio.run(main())
"""


def thorough(*moments: str) -> list[Any]:
    return [pytest.param(moment, marks=pytest.mark.thorough) for moment in moments]


def killed(folder: Path, action: str, moment: str) -> str:
    """Run a program that is killed. Return its output."""
    with python(KILLED, FOLDER=str(folder), ACTION=action, MOMENT=moment) as program:
        try:
            out, err = program.communicate(timeout=60)
        finally:
            program.kill()
    assert program.returncode == -signal.SIGKILL, err
    return out.strip()


@pytest.mark.parametrize("moment", thorough("Contents.put", "Catalog.add", "Ledger.add"))
async def test_killed_capture_falls_back_to_a_whole_one(tmp_path: Path, moment: str) -> None:
    killed(tmp_path, "capture", moment)
    database = SqliteDatabase(tmp_path / "threads.sqlite")
    with CapturedThreads(tmp_path, database, shared=False) as threads:
        [[unfinished]] = database.wait(lambda do: do("SELECT ticket FROM workspace_heads"))
        begin = await threads.history.captures.begin_turn("t")
        await threads.command("echo 3 > a; echo 3 > b")
        # The next turn has captured what the killed one left.
        assert (await threads.history.go_back("t", begin)).instead is None
        assert threads.files() == {"a": "2\n", "b": "2\n"}
        assert (await threads.history.go_back("t", unfinished)).instead is not None
        assert threads.files() == {"a": "1\n", "b": "1\n"}
    database.close()


@pytest.mark.parametrize("moment", ["Ledger.set_head", *thorough("Contents.get", "Ledger.add")])
async def test_killed_return_is_finished_by_the_next(tmp_path: Path, moment: str) -> None:
    first = killed(tmp_path, "return", moment)
    database = SqliteDatabase(tmp_path / "threads.sqlite")
    with CapturedThreads(tmp_path, database, shared=True) as threads:
        assert set(threads.files().values()) <= {"1\n", "2\n"}
        moved = await threads.history.go_back("t", first)
        assert threads.files() == {"a": "1\n", "b": "1\n"}
        assert moved.restored.kept == {}
    database.close()
