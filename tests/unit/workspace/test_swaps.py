"""A folder that is swapped with a link to a folder outside, while captures and restores run.

By hand: `SWAPS=100000 pytest tests/unit/workspace/test_swaps.py`.
"""

from __future__ import annotations

import ctypes
import os
import threading
from pathlib import Path

from libs.sandbox.host.local_sandbox import LocalSandbox
from libs.workspace import WorkspaceStore
from tests.support.snapshots.trees import tree

SWAPS = int(os.environ.get("SWAPS", "3000"))
ROUNDS = 12
RENAME_EXCHANGE = 2
HERE = -100


def test_nothing_outside_is_read_or_written(
    sandbox: LocalSandbox, root: Path, store: WorkspaceStore, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    (outside / "below").mkdir(parents=True)
    folder, link = root / "folder", root / "link"
    (folder / "below").mkdir(parents=True)
    link.symlink_to(outside)
    names = [f"{above}{number}" for above in ("", "below/") for number in range(20)]
    for name in names:
        (outside / name).write_text(f"outside {name}")
    states = []
    for text in ("one", "two"):
        for name in names:
            (folder / name).write_text(f"{text} {name}")
        (folder / "below" / text).mkdir()
        states.append((store.capture(sandbox).id, tree(root)))
    before = tree(outside)
    end = threading.Event()
    swaps = 0

    def swap() -> None:
        nonlocal swaps
        rename = ctypes.CDLL(None).renameat2
        while not end.is_set():
            swaps += not rename(HERE, bytes(folder), HERE, bytes(link), RENAME_EXCHANGE)
            if swaps % 5 == 0:
                end.wait(0.0001)

    swapper = threading.Thread(target=swap)
    swapper.start()
    captures, rounds, kept = [], 0, 0
    try:
        while swaps < SWAPS or rounds < ROUNDS:
            kept += len(store.restore(sandbox, states[rounds % 2][0]).kept)
            captures.append(store.capture(sandbox).id)
            rounds += 1
    finally:
        end.set()
        swapper.join()
    assert tree(outside) == before
    for capture in captures:
        manifest = store.manifest(capture)
        for path, entry in manifest.entries.items():
            if entry.sha256:
                assert not store.read(capture, path).startswith(b"outside"), path
    assert kept, "no swap came between"
    for wanted, state in states:
        store.restore(sandbox, wanted)
        assert tree(root) == state
