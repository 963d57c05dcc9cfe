"""Files of a one-tool thread: saved in the database, and results exported to the workspace safely."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.threads.exported_files import ExportedFiles
from libs.persistence.thread_database import SqliteDatabase
from libs.persistence.thread_store import MOST_FILE_BYTES, ThreadStore
from libs.sandbox import SandboxError


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    made = SqliteDatabase(tmp_path / "host" / "memory.sqlite")
    yield made
    made.close()


@pytest.fixture
def kept(database: SqliteDatabase, tmp_path: Path) -> ExportedFiles:
    return ExportedFiles(ThreadStore(database), tmp_path / "workspace", lambda _: Path())


async def test_files_are_saved_for_their_thread(kept: ExportedFiles) -> None:
    await kept.keep("1", {"a/b.txt": b"1", "c.bin": bytes(range(256))}, ())
    await kept.keep("1", {"a/b.txt": b"2", "d": b"3"}, ("c.bin",))
    assert await kept.files("1") == {"a/b.txt": b"2", "d": b"3"}
    assert await kept.files("2") == {}


async def test_workspace_that_was_moved_is_not_made_again(kept: ExportedFiles, tmp_path: Path) -> None:
    told = await kept.hand_over("1", {"results/x": b"1"})
    assert told.endswith(" written to the user's folder: 'results/x' (the workspace was moved or removed).")
    assert not (tmp_path / "workspace").exists()


async def test_results_are_exported_to_the_workspace(kept: ExportedFiles, tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    await kept.hand_over("1", {"results/a/plot.png": b"png", "helper.py": b"x"})
    workspace = tmp_path / "workspace"
    assert (workspace / "results/a/plot.png").read_bytes() == b"png"
    assert [path.name for path in workspace.iterdir()] == ["results"]
    await kept.hand_over("1", {"results/a/plot.png": b"other"})
    assert [path.read_bytes() for path in (workspace / "results/a").iterdir()] == [b"other"]


@pytest.mark.parametrize("where", ["results", "results/inner", "results/inner/file"])
async def test_links_are_not_followed(kept: ExportedFiles, tmp_path: Path, where: str) -> None:
    """A command of another agent may have made the link."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("precious")
    (outside / "inner").mkdir()
    (outside / "inner" / "file").write_text("precious")
    link = tmp_path / "workspace" / where
    link.parent.mkdir(parents=True)
    target = (
        outside if where == "results" else outside / "inner" if where.endswith("inner") else outside / "file"
    )
    link.symlink_to(target)
    await kept.hand_over("1", {"results/inner/file": b"changed"})
    assert (outside / "file").read_text() == "precious"
    assert (outside / "inner" / "file").read_text() == "precious"


async def test_link_instead_of_a_thread_folder_is_not_followed(
    database: SqliteDatabase, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    (outside / "mine" / "results").mkdir(parents=True)
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "threads").symlink_to(outside)
    kept = ExportedFiles(
        ThreadStore(database), tmp_path / "workspace", lambda thread: Path("threads", thread)
    )
    assert "passes through a link" in await kept.hand_over("mine", {"results/x": b"1"})
    assert list((outside / "mine" / "results").iterdir()) == []
    (tmp_path / "workspace" / "threads").unlink()
    assert await kept.hand_over("mine", {"results/x": b"1"}) == ""
    assert (tmp_path / "workspace/threads/mine/results/x").read_bytes() == b"1"


async def test_folder_with_the_name_of_a_result_is_kept(kept: ExportedFiles, tmp_path: Path) -> None:
    (tmp_path / "workspace/results/x/y").mkdir(parents=True)
    (tmp_path / "workspace/results/z").mkdir()
    told = await kept.hand_over("1", dict.fromkeys(("results/w", "results/x", "results/z"), b"1"))
    assert told == (
        "2 of the files were not written to the user's folder: 'results/x' (Is a directory), "
        "'results/z' (Is a directory)."
    )
    (tmp_path / "workspace/results/w").unlink()
    (tmp_path / "workspace/results/z").rmdir()
    assert (tmp_path / "workspace/results/x/y").is_dir()
    assert [path.name for path in (tmp_path / "workspace/results").iterdir()] == ["x"]


async def test_files_over_the_limit_change_nothing(kept: ExportedFiles) -> None:
    await kept.keep("1", {"a": b"1"}, ())
    with pytest.raises(SandboxError, match="at most 67,108,864 are kept"):
        await kept.keep("1", {"a": b"2", "b": bytes(MOST_FILE_BYTES)}, ())
    assert await kept.files("1") == {"a": b"1"}


async def test_broken_database_is_a_sandbox_error(tmp_path: Path) -> None:
    (tmp_path / "memory.sqlite").write_bytes(b"no database" * 1000)
    database = SqliteDatabase(tmp_path / "memory.sqlite")
    kept = ExportedFiles(ThreadStore(database), tmp_path, lambda _: Path())
    with pytest.raises(SandboxError, match="cannot be used") as refused:
        await kept.files("1")
    assert "Move it away" in refused.value.hint
    database.close()
