"""A worker remembers its latest walk. A worker that does not goes on from the log of the walks."""

from __future__ import annotations

import mmap
import random
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from libs.sandbox.guest.files import latest_walk, tree_walk
from libs.sandbox.guest.files.latest_walk import LatestWalk
from libs.sandbox.host.local_sandbox import LocalSandbox
from libs.workspace import WorkspaceStore

_MOST = 1 << 20
_SEED = 3


@pytest.fixture(autouse=True)
def trust_all_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that has just been changed is told again. Here, each change has another size."""
    monkeypatch.setattr(tree_walk, "_FRESH", -10_000_000_000)


class Reader:
    """Keeps the log of a worker, as the host does."""

    def __init__(self) -> None:
        self.worker = LatestWalk()
        self.mark = ""
        self.log = b""

    def changed(self) -> set[str]:
        """Walk. Return the new, changed and deleted paths."""
        log = b"" if self.mark else self.log
        changes, piece, answer = self.worker.walk(self.mark, log, _MOST, [], 60)
        self.mark = answer["mark"]
        self.log = self.log + piece if answer["adds"] else piece or self.log
        return {row[0] for row in changes["rows"]} | set(changes["deleted"])


@pytest.mark.parametrize("most", [latest_walk._MOST_HELD, 0], ids=["remembered", "from the log"])
def test_new_worker_with_the_log_knows_what_the_old_one_knew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(latest_walk, "_MOST_HELD", most)
    chance = random.Random(_SEED)
    reader = Reader()
    for step in range(40):
        expected: set[str] = set()
        for name in chance.sample("abcdefghij", 3):
            path = Path(name) / "file"
            if path.exists() and chance.random() < 0.5:
                shutil.rmtree(name)
                expected |= {name, str(path)}
            else:
                expected |= {str(path)} if path.exists() else {name, str(path)}
                path.parent.mkdir(exist_ok=True)
                path.write_text("x" * (step + 1))
        assert reader.changed() == expected
        assert bool(reader.mark) == bool(most)
        later = Reader()
        later.log = reader.log
        assert not later.changed()


@pytest.mark.thorough
def test_log_does_not_grow_without_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for number in range(20):
        Path(str(number)).touch()
    reader = Reader()
    reader.changed()
    whole = len(reader.log)
    for step in range(100):
        Path("0").write_text("x" * (step + 1))
        assert reader.changed() == {"0"}
    assert len(reader.log) < 4 * whole


def test_capture_after_the_end_of_the_sandbox_finds_what_was_deleted_since(
    sandbox: LocalSandbox, root: Path, store: WorkspaceStore
) -> None:
    (root / "old").write_text("1")
    first = store.capture(sandbox)
    (root / "new").write_text("2")
    second = store.capture(sandbox, base=first.id)
    sandbox.close()
    (root / "old").unlink()
    third = store.capture(sandbox, base=second.id)
    assert third.difference.deleted == ("/workspace/old",)
    assert set(store.manifest(third.id).entries) == {"/workspace/new"}


def test_change_through_memory_is_told_though_it_sets_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as by numpy.memmap. On a tmpfs only the first change through a mapping sets the times."""
    with TemporaryDirectory(dir="/dev/shm") as folder:
        monkeypatch.chdir(folder)
        Path("other").touch()
        Path("array").write_bytes(b"one")
        reader = Reader()
        with Path("array").open("r+b") as file, mmap.mmap(file.fileno(), 3) as memory:
            memory[:] = b"two"
            assert reader.changed() == {"other", "array"}
            memory[:] = b"six"
            assert reader.changed() == {"array"}
            memory[:] = b"ten"
        assert reader.changed() == {"array"}  # its program may end before the walk
        assert reader.changed() == set()
        monkeypatch.undo()
