"""A start gives root's files in a workspace to the sandbox, and no file outside of it."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from libs.sandbox.docker import ownership
from libs.sandbox.docker.ownership import give_to_sandbox

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to give files away")

ACCESS = "system.posix_acl_default"


def owners(root: Path) -> set[int]:
    return {path.lstat().st_uid for path in root.rglob("*")}


@contextmanager
def mounted(place: Path, *options: str) -> Iterator[None]:
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", *options, str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)


def as_sandbox(folder: Path, command: str) -> int:
    """Run a command as the sandbox's user in a folder whose parents are closed to other users."""
    return subprocess.run(
        ["sh", "-c", command], cwd=folder, user=1000, group=1000, extra_groups=[]
    ).returncode


def test_files_of_root_are_given_and_the_workspace_folder_is_not(tmp_path: Path) -> None:
    (tmp_path / "data/deep").mkdir(parents=True)
    (tmp_path / "data/deep/file").touch(0o640)
    (tmp_path / "theirs").touch()
    os.chown(tmp_path / "theirs", 1234, 1234)
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / b"bad\xff\nname".decode("utf-8", "surrogateescape")).touch()
    give_to_sandbox(tmp_path, 1000)
    assert owners(tmp_path) == {1000, 1234}
    assert stat.S_IMODE((tmp_path / "data/deep/file").stat().st_mode) == 0o640
    assert (tmp_path.stat().st_uid, tmp_path.stat().st_gid) == (0, 1000)
    assert as_sandbox(tmp_path, "touch new && rm fifo") == 0


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_sandbox_can_use_files_that_root_creates_later(tmp_path: Path, umask: int) -> None:
    (tmp_path / "data").mkdir()
    give_to_sandbox(tmp_path, 1000)
    before = os.umask(umask)
    try:
        (tmp_path / "data/later").mkdir()
        (tmp_path / "data/later/file").write_text("x")
    finally:
        os.umask(before)
    assert (
        as_sandbox(tmp_path, "cat data/later/file && echo y >> data/later/file && touch data/later/new") == 0
    )


def test_no_link_is_followed(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    for folder in (outside, root):
        folder.mkdir()
    (outside / "file").touch()
    (root / "folder").symlink_to(outside)
    (root / "file").symlink_to(outside / "file")
    (root / "dangling").symlink_to("nowhere")
    (root / "loop").symlink_to("loop")
    give_to_sandbox(root, 1000)
    assert owners(root) == {1000}
    assert owners(tmp_path) - owners(root) == {0}
    assert outside.stat().st_uid == 0
    assert ACCESS not in os.listxattr(outside)


def test_hard_linked_file_stays_roots(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    root.mkdir()
    outside.touch()
    (root / "linked").hardlink_to(outside)
    give_to_sandbox(root, 1000)
    assert outside.stat().st_uid == 0


@pytest.mark.parametrize("kind", ["bind", "tmpfs"])
def test_mounts_and_devices_stay_roots(tmp_path: Path, kind: str) -> None:
    (tmp_path / "source").mkdir()
    root = tmp_path / "root"
    root.mkdir()
    os.mknod(root / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    options = ["--bind", str(tmp_path / "source")] if kind == "bind" else ["-t", "tmpfs", "none"]
    with mounted(root / "mounted", *options):
        (root / "mounted/file").touch()
        give_to_sandbox(root, 1000)
        assert owners(root) == {0}
        assert ACCESS not in os.listxattr(root / "mounted")


def test_set_uid_bit_of_a_given_file_is_cleared(tmp_path: Path) -> None:
    (tmp_path / "program").touch(0o700)
    (tmp_path / "program").chmod(0o4755)
    give_to_sandbox(tmp_path, 1000)
    assert (tmp_path / "program").stat().st_uid == 1000
    assert stat.S_IMODE((tmp_path / "program").stat().st_mode) == 0o755


def test_deeply_nested_folders_end(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(3_000):
        os.mkdir("x", dir_fd=here)
        inner = os.open("x", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    give_to_sandbox(tmp_path, 1000)
    assert Path(tmp_path, *["x"] * 60).stat().st_uid == 1000
    subprocess.run(["rm", "-rf", str(tmp_path / "x")], check=True)


def test_start_stops_at_its_time_limit_and_the_next_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ownership, "_SECONDS", 0.02)
    for number in range(3_000):
        (tmp_path / str(number)).touch()
    give_to_sandbox(tmp_path, 1000)
    assert owners(tmp_path) == {0, 1000}
    assert "too many files" in caplog.text
    monkeypatch.setattr(ownership, "_SECONDS", 60)
    give_to_sandbox(tmp_path, 1000)
    assert owners(tmp_path) == {1000}


@pytest.mark.parametrize("place", ["threads", "threads/a"])
def test_link_in_the_place_of_a_threads_folder_is_an_error(tmp_path: Path, place: str) -> None:
    """A command of a shared sandbox may put a link there at any moment."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "threads/a/results").mkdir(parents=True)
    give_to_sandbox(root, 1000, ("threads", "a"))
    assert [(root / name).stat().st_uid for name in ("threads", "threads/a", "threads/a/results")] == [
        0,
        1000,
        1000,
    ]
    (root / place).rename(tmp_path / "aside")
    (outside / "a/results").mkdir(parents=True)
    (root / place).symlink_to(outside)
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        give_to_sandbox(root, 1000, ("threads", "a"))
    assert owners(outside) == {0}
    assert ACCESS not in os.listxattr(outside / "a")
