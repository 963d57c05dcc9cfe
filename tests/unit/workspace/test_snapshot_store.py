"""The places of manifests and contents: deltas, damage, wrong addresses, a full disk, and S3."""

from __future__ import annotations

import asyncio
import hashlib
import os
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from libs.persistence.thread_database import SqliteDatabase
from libs.sandbox.host.local_sandbox import LocalSandbox
from libs.workspace import Catalog, ContentMissing, Contents, SnapshotsUnavailable, WorkspaceStore
from tests.support.snapshots.trees import tree


def contents_in(place: Path) -> list[Path]:
    return [file for file in (place / "contents").rglob("*") if file.is_file()]


@pytest.fixture
def snapshots(tmp_path: Path) -> Path:
    return tmp_path / "snapshots"


def test_equal_contents_are_kept_once_and_only_for_the_owner(
    sandbox: LocalSandbox, root: Path, store: WorkspaceStore, snapshots: Path
) -> None:
    for name in "abc":
        (root / name).write_text("same")
    store.capture(sandbox)
    assert len(contents_in(snapshots)) == 1
    assert snapshots.stat().st_mode & 0o777 == 0o700


def test_capture_tells_the_times_of_changes_that_a_restore_has_seen_before(
    sandbox: LocalSandbox, root: Path, store: WorkspaceStore
) -> None:
    """Otherwise a change that comes during a restore belongs to nobody."""
    first = store.capture(sandbox).id
    (root / "restored").touch()
    (root / "other").touch()
    done = store.restore(sandbox, first, only=["/workspace/restored"])
    assert done.difference.deleted == ("/workspace/restored",)
    assert store.capture(sandbox).times["/workspace/other"] == (root / "other").stat().st_ctime_ns


@pytest.mark.parametrize(
    ("files", "changes"), [(500, 20), pytest.param(5_000, 100, marks=pytest.mark.thorough)]
)
def test_small_changes_of_a_large_tree_cost_what_changed(
    sandbox: LocalSandbox,
    root: Path,
    store: WorkspaceStore,
    database: SqliteDatabase,
    snapshots: Path,
    files: int,
    changes: int,
) -> None:
    for number in range(files):
        (root / f"{number}").write_text(f"{number}")
    captures = [store.capture(sandbox)]
    for number in range(changes):
        (root / f"{number}").write_text("changed")
        captures.append(store.capture(sandbox))
    whole, *later = database.wait(lambda do: do("SELECT length(change) FROM workspace_manifests ORDER BY at"))
    assert len(later) == changes
    assert sum(size for (size,) in later) < whole[0]

    again = WorkspaceStore(Catalog(database), Contents(str(snapshots)))
    for number in (0, 1, changes // 2, changes):
        loaded = again.manifest(captures[number].id)
        assert loaded.id == captures[number].id
        assert len(loaded.entries) == files
    assert again.difference(captures[0].id, captures[-1].id).changed == tuple(
        sorted(f"/workspace/{number}" for number in range(changes))
    )


def damage(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-5])


def remove(file: Path) -> None:
    file.unlink()


@pytest.mark.parametrize("harm", [damage, cut, remove])
def test_content_that_is_lost_or_damaged_leaves_nothing_half_restored(
    sandbox: LocalSandbox,
    root: Path,
    database: SqliteDatabase,
    snapshots: Path,
    harm: Callable[[Path], None],
) -> None:
    """The restore has changed other files before it comes to the damaged one."""
    store = WorkspaceStore(Catalog(database), Contents(str(snapshots)))
    (root / "good").write_bytes(os.urandom(3_000_000))
    (root / "folder").mkdir(mode=0o500)
    (root / "removed").write_text("removed")
    store.capture(sandbox)
    files = set(contents_in(snapshots))
    (root / "zbad").write_text("bad" * 1000)
    captured = store.capture(sandbox)
    (bad,) = set(contents_in(snapshots)) - files
    harm(bad)
    for name in ("good", "removed", "zbad"):
        (root / name).unlink()
    (root / "folder").rmdir()
    (root / "good").mkdir()
    (root / "good" / "new").write_text("new")
    before = tree(root)
    with pytest.raises(ContentMissing) as caught:
        store.restore(sandbox, captured.id)
    assert "code-agent rewind" in caught.value.hint
    assert tree(root) == before
    with pytest.raises(ContentMissing):
        store.read(captured.id, "/workspace/zbad")
    assert tree(root) == before


@pytest.mark.parametrize("url", ["nowhere://x", "s3://", "ftp://host/x"])
def test_wrong_address_is_refused_with_a_hint(url: str) -> None:
    with pytest.raises(SnapshotsUnavailable) as caught:
        Contents(url)
    assert "SNAPSHOTS_URL" in caught.value.hint


def test_place_that_cannot_be_used_is_an_error_with_a_hint(
    sandbox: LocalSandbox, root: Path, database: SqliteDatabase, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    (root / "a").write_text("a")
    for url in (str(tmp_path / "file"), f"file://{tmp_path}/file/below"):
        with pytest.raises(SnapshotsUnavailable) as caught:
            WorkspaceStore(Catalog(database), Contents(url)).capture(sandbox)
        assert "SNAPSHOTS_URL" in caught.value.hint
    assert database.wait(lambda do: do("SELECT * FROM workspace_manifests")) == []


async def test_content_that_nobody_waits_for_is_not_read_to_its_end(tmp_path: Path) -> None:
    contents = Contents(str(tmp_path))
    begun = asyncio.Event()
    read = 0

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal read
        while read < 100:
            yield b"x" * 1_000_000
            read += 1
            begun.set()
            await asyncio.sleep(0.02)

    keeping = asyncio.create_task(contents.put_large("place", hashlib.sha256().hexdigest(), pieces()))
    await begun.wait()
    keeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await keeping
    stopped = read
    await asyncio.sleep(0.3)
    assert read <= stopped + 1
    assert contents_in(tmp_path) == []


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MB."""
    assert os.geteuid() == 0, "only root can mount a small disk"
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], check=True)
    yield place
    subprocess.run(["umount", place], check=True)


def test_full_disk_of_the_snapshots_keeps_earlier_captures_whole(
    sandbox: LocalSandbox, root: Path, database: SqliteDatabase, small: Path
) -> None:
    store = WorkspaceStore(Catalog(database), Contents(str(small / "snapshots")))
    (root / "a").write_text("first")
    first, before = store.capture(sandbox).id, tree(root)
    for number in range(30):
        (root / f"{number}").write_bytes(os.urandom(100_000))
    (root / "large").write_bytes(os.urandom(6_000_000))
    with pytest.raises(SnapshotsUnavailable) as caught:
        store.capture(sandbox)
    assert "Free some disk" in caught.value.hint
    assert len(database.wait(lambda do: do("SELECT id FROM workspace_manifests"))) == 1
    subprocess.run(["find", str(root), "-mindepth", "1", "-not", "-name", "a", "-delete"], check=True)
    (root / "a").write_text("second")
    store.restore(sandbox, first)
    assert tree(root) == before


def test_restore_to_a_full_disk_is_refused_before_anything_changes(
    database: SqliteDatabase, tmp_path: Path, small: Path
) -> None:
    store = WorkspaceStore(Catalog(database), Contents(str(tmp_path / "snapshots")))
    with LocalSandbox(small) as sandbox:
        (small / "a").write_bytes(os.urandom(600_000))
        (small / "b").write_text("b")
        wanted = store.capture(sandbox).id
        (small / "a").unlink()
        (small / "b").unlink()
        (small / "filler").write_bytes(os.urandom(600_000))
        store.capture(sandbox)
        before = tree(small)
        with pytest.raises(OSError, match="600,001 bytes are needed on the disk: free some space"):
            store.restore(sandbox, wanted)
        assert tree(small) == before
