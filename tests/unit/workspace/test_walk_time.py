"""A walk reads contents for a limited time. What it has not read is named, and read by a later walk."""

from __future__ import annotations

from pathlib import Path

import pytest

from libs.sandbox.guest.files import tree_walk
from libs.sandbox.guest.files.tree_walk import walk
from libs.sandbox.host.local_sandbox import LocalSandbox
from libs.workspace import WorkspaceStore
from libs.workspace import store as stores

LATE = "the time was used up before it was read"


def test_file_that_was_not_read_in_time_is_named_and_kept_next(
    sandbox: LocalSandbox, root: Path, store: WorkspaceStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "old").write_text("1")
    first = store.capture(sandbox)
    (root / "new").write_text("2")
    with monkeypatch.context() as late:
        late.setattr(stores, "_READ_SECONDS", -1)
        second = store.capture(sandbox)
    assert second.skipped["/workspace/new"] == LATE
    assert "/workspace/new" in store.manifest(second.id).entries
    third = store.capture(sandbox)
    assert not third.skipped
    (root / "new").unlink()
    store.restore(sandbox, third.id)
    assert (root / "new").read_text() == "2"
    assert store.restore(sandbox, first.id).difference.deleted == ("/workspace/new",)


def test_large_files_are_read_last_and_the_smallest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    real = tree_walk.read_steady
    monkeypatch.setattr(
        tree_walk, "read_steady", lambda folder, name: (order.append(name), real(folder, name))[1]
    )
    monkeypatch.chdir(tmp_path)
    for path, size in (("a/largest", 3 << 20), ("a/small", 1), ("b/c/large", 2 << 20), ("b/z", 2)):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(bytes(size))
    changes, _, _ = walk({}, 1 << 30, [], 60)
    assert sorted(order[:2]) == ["small", "z"]
    assert order[2:] == ["large", "largest"]
    assert not changes["skipped"]
    assert all(row[5] for row in changes["rows"] if row[1] == "file")
