"""Files and values of a one-tool thread: captured, and brought back."""

from __future__ import annotations

from pathlib import Path

import pytest

from libs.exec_tool import ThreadTrees
from libs.exec_tool.execute_code_call import check_path
from libs.persistence import FileContent, mode_of
from libs.persistence.thread_database import SqliteDatabase
from libs.persistence.thread_store import ThreadStore
from libs.workspace import Catalog, Contents, WorkspaceStore

LARGE = bytes(range(256)) * 10_000
"""More than one request for contents carries."""


@pytest.fixture
def threads(database: SqliteDatabase) -> ThreadStore:
    return ThreadStore(database)


def kept(database: SqliteDatabase, tmp_path: Path, **options: int) -> WorkspaceStore:
    return WorkspaceStore(Catalog(database), Contents(str(tmp_path / "snapshots")), **options)


async def test_files_and_values_come_back(
    database: SqliteDatabase, threads: ThreadStore, tmp_path: Path
) -> None:
    store, tree = kept(database, tmp_path), ThreadTrees(threads).of("1")
    names = ["n", "a/b", "..", ".", "ä %2F", "x" * 200]
    await threads.keep("1", {"a/b.txt": b"1", "large": LARGE, "empty": b"", "gone": b"2"}, ())
    await threads.keep("1", {"run": FileContent(b"#!", 0o755)}, ())
    for name in names:
        await threads.put("1", name, f'"{name}"')
    files, values = await threads.files("1"), await threads.values("1")

    before = await store.acapture(tree)
    await threads.keep("1", {"a/b.txt": b"2", "large": LARGE[:-1], "new": b"3", "run": b"#!"}, ("gone",))
    await threads.put("1", "n", "5")
    await threads.put("1", "later", "6")
    await threads.delete("1", "a/b")
    await threads.keep("2", {"gone": b"of another thread"}, ())
    restored = await store.arestore(tree, before.id)

    assert (await threads.files("1"), await threads.values("1")) == (files, values)
    assert mode_of((await threads.files("1"))["run"]) == 0o755
    assert await threads.files("2") == {"gone": b"of another thread"}
    assert restored.kept == {}
    assert restored.difference.created == ("/workspace/.kv/a%2Fb", "/workspace/gone")
    assert restored.difference.deleted == ("/workspace/.kv/later", "/workspace/new")
    assert restored.difference.changed == (
        "/workspace/.kv/n",
        "/workspace/a/b.txt",
        "/workspace/large",
        "/workspace/run",
    )


async def test_file_over_the_limit_is_named_and_stays(
    database: SqliteDatabase, threads: ThreadStore, tmp_path: Path
) -> None:
    store, tree = kept(database, tmp_path, file_max=3), ThreadTrees(threads).of("1")
    await threads.keep("1", {"large": b"1234", "small": b"1"}, ())
    before = await store.acapture(tree)
    assert list(before.skipped) == ["/workspace/large"]
    await threads.keep("1", {"large": b"123", "small": b"2"}, ())
    restored = await store.arestore(tree, before.id)
    assert list(restored.kept) == ["/workspace/large"]
    assert await threads.files("1") == {"large": b"123", "small": b"1"}


async def test_path_that_has_changed_since_the_walk_is_left_alone(threads: ThreadStore) -> None:
    tree = ThreadTrees(threads).of("1")
    await threads.keep("1", {"a": b"1", "b": b"1"}, ())
    steps = [{"do": "remove", "path": path, "old": ["file", 1, "0" * 64]} for path in "ac"]
    steps.append({"do": "remove", "path": "b", "old": ["file", 1, _ONE]})
    answer, _, _ = await tree.atree("apply", steps=steps)
    assert list(answer["left"]) == ["a", "c"]
    assert await threads.files("1") == {"a": b"1"}


_ONE = "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"
"""SHA-256 of "1"."""


def test_no_file_can_stand_in_the_place_of_a_value() -> None:
    with pytest.raises(ValueError, match="stands for the values"):
        check_path("./.kv/n")


def test_tree_with_a_capture_to_come_stays_known(threads: ThreadStore) -> None:
    trees = ThreadTrees(threads)
    busy, idle = trees.of("busy"), trees.of("idle")
    busy.turns.before_next("busy", lambda: threads.put("busy", "n", "1"))
    for number in range(200):
        trees.of(str(number))
    assert trees.of("busy") is busy
    assert trees.of("idle") is not idle
