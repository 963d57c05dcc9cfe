"""kill -9 of the sandbox's processes and of this program, in the middle of captures and restores."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from libs.sandbox import FileFailed, SandboxError
from libs.sandbox.host.local_sandbox import LocalSandbox
from libs.workspace import HalfRestored, SnapshotsUnavailable, WorkspaceStore
from tests.support.snapshots import ending_contents
from tests.support.snapshots.ending_contents import fill, snapshots_at
from tests.support.snapshots.trees import tree

MOMENTS = [pytest.param(0, marks=pytest.mark.thorough), 2, pytest.param(4, marks=pytest.mark.thorough)]
"""Contents that are kept or restored before the kill."""


def children(parent: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(parent)], capture_output=True, text=True, check=False).stdout
    return [int(child) for child in found.split()]


def whole(store: WorkspaceStore, place: Path) -> list[str]:
    """Check that every named capture has all its contents. Return the captures, the first one first."""
    names = [
        str(name)
        for (name,) in store._catalog._database.wait(
            lambda do: do("SELECT id FROM workspace_manifests ORDER BY at")
        )
    ]
    for name in names:
        for path, entry in store.manifest(name).entries.items():
            if entry.kind == "file":
                assert len(store.read(name, path)) == entry.size
    return names


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The folder of the store."""
    return tmp_path / "store"


@pytest.mark.parametrize("at", MOMENTS)
@pytest.mark.parametrize("whose", ["workers", pytest.param("supervisor", marks=pytest.mark.thorough)])
def test_killed_sandbox_leaves_no_half_capture_and_no_half_restore(
    sandbox: LocalSandbox, root: Path, place: Path, at: int, whose: str
) -> None:
    kills: list[list[int]] = []

    def kill() -> None:
        assert sandbox.process
        killed: list[int] = []
        ended = [sandbox.process.pid] if whose == "supervisor" else children(sandbox.process.pid)
        for process in ended:
            with suppress(ProcessLookupError):  # the supervisor may end a spare worker meanwhile
                os.kill(process, signal.SIGKILL)
                killed.append(process)
        kills.append(killed)

    fill(root, 1)
    first, before = snapshots_at(place).capture(sandbox).id, tree(root)
    fill(root, 2)
    with suppress(FileFailed, SandboxError):  # no error between two requests to a worker
        snapshots_at(place, at, kill).capture(sandbox)
    assert whole(snapshots_at(place), place)[0] == first
    second, after = snapshots_at(place).capture(sandbox).id, tree(root)
    with suppress(FileFailed, SandboxError):
        snapshots_at(place, at, kill).restore(sandbox, first)
    assert len(kills) == 2
    assert all(kills)
    assert tree(root) in (after, before)
    assert {first, second} <= set(whole(snapshots_at(place), place))
    snapshots_at(place).restore(sandbox, first)
    assert tree(root) == before


@pytest.mark.parametrize("at", MOMENTS)
def test_killed_program_leaves_no_half_capture_and_its_restore_can_be_completed(
    sandbox: LocalSandbox, root: Path, place: Path, at: int
) -> None:
    def killed(*arguments: str) -> None:
        program = [sys.executable, "-m", ending_contents.__name__, str(place), str(root), str(at), *arguments]
        assert subprocess.run(program, check=False).returncode == -signal.SIGKILL

    fill(root, 1)
    first, before = snapshots_at(place).capture(sandbox).id, tree(root)
    fill(root, 2)
    killed()
    assert whole(snapshots_at(place), place) == [first]
    store = snapshots_at(place)
    second, after = store.capture(sandbox).id, tree(root)
    killed(first)
    assert {first, second} <= set(whole(snapshots_at(place), place))
    store.restore(sandbox, second)
    assert tree(root) == after
    killed(first)
    store.restore(sandbox, first)
    assert tree(root) == before


def test_restore_that_cannot_be_undone_says_so_and_can_be_completed(
    sandbox: LocalSandbox, root: Path, place: Path
) -> None:
    def fail() -> None:
        store._contents.left = 0  # type: ignore[attr-defined]
        raise SnapshotsUnavailable("No answer.", hint="Wait.")

    fill(root, 1)
    first, before = snapshots_at(place).capture(sandbox).id, tree(root)
    fill(root, 2)
    (root / "folder1" / "new").write_text("new")
    store = snapshots_at(place)
    store.capture(sandbox)
    store = snapshots_at(place, 2, fail)
    with pytest.raises(HalfRestored, match="No answer") as caught:
        store.restore(sandbox, first)
    assert "Restore again" in caught.value.hint
    assert tree(root) != before
    snapshots_at(place).restore(sandbox, first)
    assert tree(root) == before


async def test_cancelled_restore_is_undone(sandbox: LocalSandbox, root: Path, place: Path) -> None:
    loop = asyncio.get_running_loop()
    fill(root, 1)
    first = (await snapshots_at(place).acapture(sandbox)).id
    fill(root, 2)
    await snapshots_at(place).acapture(sandbox)
    after = tree(root)
    store = snapshots_at(place, 4, lambda: loop.call_soon_threadsafe(restore.cancel))
    restore = asyncio.ensure_future(store.arestore(sandbox, first))
    with pytest.raises(asyncio.CancelledError):
        await restore
    assert tree(root) == after
