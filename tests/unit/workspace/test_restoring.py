"""Which paths a restore touches, and what it says of the others."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from libs.sandbox.host.local_sandbox import LocalSandbox
from libs.workspace import Entry, Manifest, WorkspaceStore
from libs.workspace.restoring import to_touch, to_undo

FOLDER = Entry("dir", 0o755, 0, 0, None, None)
CLOSED = Entry("dir", 0, 0, 0, None, None)
DENIED = {"/workspace/d": "permission denied"}


def file(content: str) -> Entry:
    return Entry("file", 0o644, 0, 1, content * 64, None)


def test_what_a_closed_folder_held_is_nobody_elses_change() -> None:
    """The present is read a second time when a restore has opened the folder."""
    target = Manifest({"/workspace/d": FOLDER, "/workspace/d/f": file("a")})
    expected = Manifest({"/workspace/d": CLOSED}, DENIED)
    now = Manifest({"/workspace/d": FOLDER, "/workspace/d/f": file("b")})
    assert to_touch(now, target, None, expected) == (["/workspace/d/f"], {})
    paths, kept = to_touch(now, target, {"/workspace/d"}, expected)
    assert not paths
    assert kept == {"/workspace/d/f": "its folder could not be read, so nobody knows who has changed it"}


def test_preview_and_restore_agree_on_folders_in_which_something_stays(
    sandbox: LocalSandbox, root: Path, store: WorkspaceStore
) -> None:
    (root / "a").write_text("a")
    before = store.capture(sandbox).id
    (root / "a").unlink()
    for name in ("a", "new/inner"):
        (root / name).mkdir(parents=True)
        os.mkfifo(root / name / "fifo")
        (root / name / "z").write_text("z")
    present = store.capture(sandbox).id
    told = store.restore(sandbox, before, expect=present, dry_run=True)
    done = store.restore(sandbox, before, expect=present)
    assert (told.difference, told.kept) == (done.difference, done.kept)
    assert done.difference.deleted == ("/workspace/a/z", "/workspace/new/inner/z")
    stays = {path: why for path, why in done.kept.items() if "fifo" not in path}
    assert stays == dict.fromkeys(
        ("/workspace/a", "/workspace/new", "/workspace/new/inner"), "something in it stays"
    )


def test_preview_and_restore_agree_on_files_whose_folder_is_not_brought_back(
    sandbox: LocalSandbox, root: Path, store: WorkspaceStore
) -> None:
    (root / "d").mkdir()
    (root / "d/f").write_text("f")
    before = store.capture(sandbox).id
    (root / "d/f").unlink()
    (root / "d").rmdir()
    after = store.capture(sandbox).id
    (root / "d").write_text("of somebody else")
    told = store.restore(sandbox, before, expect=after, dry_run=True)
    done = store.restore(sandbox, before, expect=after)
    assert told == done
    assert not done.difference
    assert done.kept == {
        "/workspace/d": "it was changed by somebody else",
        "/workspace/d/f": "its folder is not brought back",
    }


def test_a_folder_that_only_one_moment_could_read_is_named() -> None:
    """Such as an empty folder without permission to search it, or a folder that got another owner."""
    listed = Manifest({"/workspace/d": FOLDER, "/workspace/d/f": file("a")})
    closed = Manifest(listed.entries, DENIED)
    named = {"/workspace/d": "its present content is not kept: permission denied"}
    assert to_touch(closed, listed, None, None) == ([], named)
    named = {"/workspace/d": "its earlier content was not kept: permission denied"}
    assert to_touch(listed, closed, None, None) == ([], named)
    assert to_touch(closed, listed, {"/workspace/other"}, None) == ([], {})


def test_a_folder_that_could_not_be_read_gets_its_permissions_and_is_named() -> None:
    """The names below it are of an earlier reading."""
    target = Manifest({"/workspace/d": CLOSED, "/workspace/d/earlier": file("a")}, DENIED)
    now = Manifest({"/workspace/d": FOLDER, "/workspace/d/new": file("b")})
    named = {"/workspace/d": "its earlier content was not kept: permission denied"}
    assert to_touch(now, target, None, None) == (["/workspace/d"], named)
    half = Manifest({**now.entries, "/workspace/d": CLOSED}, DENIED)
    assert to_undo(half, now, target, ["/workspace/d"]) == ["/workspace/d"]
    assert to_touch(Manifest({}), target, None, None) == ([], named)
    before = Manifest({"/workspace/d": replace(FOLDER, mode=0o700), "/workspace/d/new": file("b")})
    paths, kept = to_touch(now, target, None, before)
    assert not paths
    assert kept["/workspace/d"] == "it was changed by somebody else"
    assert kept["/workspace/d/new"] == named["/workspace/d"]
