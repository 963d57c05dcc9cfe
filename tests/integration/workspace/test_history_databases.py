"""The tickets of threads in both databases."""

from __future__ import annotations

from pathlib import Path

from libs.persistence.thread_database import Database
from tests.servers.thread_databases import both_databases
from tests.support.workspaces.captured_threads import CapturedThreads


@both_databases
async def test_files_go_back_and_forward(database: Database, another: Database, tmp_path: Path) -> None:
    with CapturedThreads(tmp_path, database, shared=True) as threads:
        talk = await threads.turn()
        first = await threads.turn("echo 1 > a; echo 1 > b")
        await threads.turn("echo 2 > a")
        await threads.turn("echo other > b", thread="u")
        after = threads.files()
        changed = await threads.history.files.changed("t", talk, first)
        assert changed.difference.created == ("/workspace/a", "/workspace/b")
    # As another program.
    with CapturedThreads(tmp_path, another, shared=True) as threads:
        moved = await threads.history.go_back("t", talk)
        assert threads.files() == {"b": "other\n"}
        assert moved.restored.kept == {"/workspace/b": "somebody else has changed it, too"}
        await threads.history.go_back("t", moved.before)
        assert threads.files() == after
