"""Unusual names and kinds of files: each is kept, or is named with the reason."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from libs.sandbox.host.local_sandbox import LocalSandbox
from libs.workspace import Manifest, WorkspaceStore
from tests.support.snapshots.trees import tree

NAMES = [
    "new\nline",
    "tab\t",
    "\udcff\udcfe",
    "n" * 255,
    "-rf",
    " ",
    "'\"$(x)",
    "\u202e",
    "é",
    "e\u0301",
    ".hidden",
]


def emptied(root: Path) -> None:
    subprocess.run(["find", str(root), "-mindepth", "1", "-delete"], check=True)


def test_any_name_is_kept_and_restored(sandbox: LocalSandbox, root: Path, store: WorkspaceStore) -> None:
    for name in NAMES:
        (root / name).mkdir()
        (root / name / name).write_text(name, "utf-8", "surrogateescape")
        (root / name / "link").symlink_to(name)
    before = tree(root)
    captured = store.capture(sandbox)
    assert not captured.skipped
    assert set(store.manifest(captured.id).entries) == set(before)
    emptied(root)
    assert not store.restore(sandbox, captured.id).kept
    assert tree(root) == before


@pytest.mark.parametrize("seconds", [-86_400, 13_569_465_600], ids=["1969", "2400"])
def test_times_far_away_are_kept(
    sandbox: LocalSandbox, root: Path, store: WorkspaceStore, seconds: int
) -> None:
    (root / "file").touch()
    os.utime(root / "file", (seconds, seconds))
    before = tree(root)
    captured = store.capture(sandbox)
    emptied(root)
    assert not store.restore(sandbox, captured.id).kept
    assert tree(root) == before


def test_loops_of_links_sparse_empty_and_hard_linked_files(
    sandbox: LocalSandbox, root: Path, store: WorkspaceStore
) -> None:
    (root / "loop").symlink_to("loop")
    (root / "up").symlink_to("..")
    (root / "broken").symlink_to("/nowhere")
    (root / "empty").touch()
    (root / "folder").mkdir()
    with (root / "sparse").open("wb") as file:
        file.truncate(9_000)
    (root / "one").write_text("one")
    os.link(root / "one", root / "two")
    before = tree(root)
    captured = store.capture(sandbox)
    assert not captured.skipped
    emptied(root)
    assert not store.restore(sandbox, captured.id).kept
    assert tree(root) == before


def test_other_name_of_a_file_keeps_its_permissions(
    sandbox: LocalSandbox, root: Path, store: WorkspaceStore
) -> None:
    for name in ("one", "two"):
        (root / name).write_text("same")
        os.utime(root / name, (1, 1))
    (root / "one").chmod(0o600)
    before = tree(root)
    captured = store.capture(sandbox)
    (root / "one").unlink()
    os.link(root / "two", root / "one")
    assert not store.restore(sandbox, captured.id).kept
    assert tree(root) == before


def test_special_files_are_named_and_stay(sandbox: LocalSandbox, root: Path, store: WorkspaceStore) -> None:
    (root / "data").write_text("kept")
    first = store.capture(sandbox).id
    os.mkfifo(root / "fifo")
    (root / "data").unlink()
    os.mkfifo(root / "data")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(root / "socket"))
    captured = store.capture(sandbox, base=first)
    assert captured.skipped == {
        "/workspace/fifo": "a FIFO",
        "/data": "a FIFO",
        "/workspace/socket": "a socket",
    }
    assert captured.difference.deleted == ("/data",)
    assert store.restore(sandbox, first).kept == {
        "/workspace/fifo": "its present content is not kept: a FIFO",
        "/data": "its present content is not kept: a FIFO",
        "/workspace/socket": "its present content is not kept: a socket",
    }
    assert (root / "data").is_fifo()


def test_what_is_known_to_stand_in_the_place_of_a_file_gives_way(
    sandbox: LocalSandbox, root: Path, store: WorkspaceStore
) -> None:
    for name in ("fifo", "socket", "large", "link", "other"):
        (root / name).write_text(name)
    (root / "link").unlink()
    (root / "link").symlink_to("fifo")
    before = tree(root)
    first = store.capture(sandbox).id
    for name in ("fifo", "socket", "link"):
        (root / name).unlink()
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(root / "socket"))
    for name in ("large", "link", "other"):
        (root / name).write_bytes(bytes(10_001))
    os.mkfifo(root / "new")
    after = store.capture(sandbox).id
    (root / "other").write_bytes(bytes(10_002))  # by somebody else
    restored = store.restore(sandbox, first, expect=after)
    assert restored.kept.keys() == {"/workspace/other", "/workspace/new"}
    (root / "new").unlink()
    assert (root / "other").stat().st_size == 10_002
    (root / "other").unlink()
    assert {path: held for path, held in before.items() if path != "/workspace/other"} == tree(root)


def test_file_over_the_limit_is_listed_and_named(
    sandbox: LocalSandbox, root: Path, store: WorkspaceStore
) -> None:
    (root / "large").write_bytes(bytes(10_001))
    captured = store.capture(sandbox)
    assert captured.skipped == {"/workspace/large": "larger than 10,000 bytes"}
    entry = store.manifest(captured.id).entries["/workspace/large"]
    assert (entry.size, entry.sha256) == (10_001, None)
    assert not store.restore(sandbox, captured.id).kept  # the file has not changed
    (root / "large").write_bytes(b"small now")
    assert store.restore(sandbox, captured.id).kept == {
        "/workspace/large": "its earlier content was not kept: larger than 10,000 bytes"
    }
    assert (root / "large").read_bytes() == b"small now"


@pytest.mark.parametrize("levels", [490, 600])
def test_deep_folders(sandbox: LocalSandbox, root: Path, store: WorkspaceStore, levels: int) -> None:
    (root / "kept").write_text("kept")
    folder = os.open(root, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=folder)
        below = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    captured = store.capture(sandbox)
    entries = store.manifest(captured.id).entries
    assert "/workspace/kept" in entries
    if levels > 500:
        assert captured.skipped == {"/workspace/" + "/".join("d" * 500): "over 500 folders deep"}
    else:
        assert not captured.skipped
        assert len(entries) == levels + 1
    shutil.rmtree(root / "d") if levels < 500 else subprocess.run(["rm", "-rf", root / "d"], check=True)
    store.restore(sandbox, captured.id)
    place = root
    for _ in range(min(levels, 500) - 1):
        place /= "d"
    assert place.is_dir()
    subprocess.run(["rm", "-rf", root / "d"], check=True)


def test_file_that_changes_while_it_is_read_is_named_and_kept_next(
    sandbox: LocalSandbox, root: Path, store: WorkspaceStore
) -> None:
    (root / "other").write_text("other")
    file = root / "growing"
    file.write_bytes(bytes(9_000))
    end = threading.Event()

    def change() -> None:
        with file.open("r+b", buffering=0) as opened:
            number = 0
            while not end.is_set():
                number += 1
                opened.seek(0)
                opened.write(number.to_bytes(8, "big"))

    writer = threading.Thread(target=change)
    writer.start()
    try:
        deadline = time.monotonic() + 60
        while not (captured := store.capture(sandbox)).skipped and time.monotonic() < deadline:
            pass
    finally:
        end.set()
        writer.join()
    assert captured.skipped == {"/workspace/growing": "it changes while it is read"}
    assert store.read(captured.id, "/workspace/other") == b"other"
    with pytest.raises(FileNotFoundError):
        store.read(captured.id, "/workspace/growing")
    later = store.capture(sandbox)
    assert not later.skipped
    assert store.read(later.id, "/workspace/growing") == file.read_bytes()


def test_change_in_the_same_tick_and_of_the_same_size_is_found(
    sandbox: LocalSandbox, root: Path, store: WorkspaceStore
) -> None:
    file = root / "file"
    for number in range(20):
        file.write_text(f"{number:04}")
        os.utime(file, (1, 1))
        captured = store.capture(sandbox)
        assert store.read(captured.id, "/workspace/file") == f"{number:04}".encode()


def test_output_folder_is_not_captured(sandbox: LocalSandbox, root: Path, store: WorkspaceStore) -> None:
    (root / ".output").mkdir()
    (root / ".output" / "log").write_text("log")
    (root / "data").mkdir()
    (root / "data" / ".output").write_text("kept")
    assert set(store.manifest(store.capture(sandbox).id).entries) == {"/data", "/data/.output"}


def test_empty_workspace(sandbox: LocalSandbox, store: WorkspaceStore) -> None:
    assert store.capture(sandbox).id == Manifest({}).id


@pytest.mark.thorough
def test_hundred_thousand_files(sandbox: LocalSandbox, root: Path, store: WorkspaceStore) -> None:
    for folder in range(100):
        (root / f"{folder}").mkdir()
        for number in range(1_000):
            (root / f"{folder}" / f"{number}").write_text(f"{folder} {number}")
    before = tree(root)
    captured = store.capture(sandbox)
    assert not captured.skipped
    assert len(store.manifest(captured.id).entries) == 100_100
    subprocess.run(["rm", "-rf", *(root / f"{folder}" for folder in range(50))], check=True)
    assert not store.restore(sandbox, captured.id).kept
    assert tree(root) == before
