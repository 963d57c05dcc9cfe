"""The workspace folder on the host: its folders and the user of the sandbox."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

import pytest

from libs.sandbox import workspace
from libs.sandbox.host.folder_watch import FolderWatch
from libs.sandbox.workspace import (
    FOLDERS,
    Folders,
    folder_at,
    how_to_mend,
    mounts_below,
    prepare_workspace,
    refuse_as_workspace,
    refuse_unwritable,
    replaced,
)

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to give files away")


@pytest.mark.parametrize(
    ("number", "told"),
    [(errno.ENOSPC, "df -h"), (errno.EMFILE, "ulimit -n"), (errno.EACCES, "WORKSPACE_DIR")],
)
def test_each_cause_has_its_hint(tmp_path: Path, number: int, told: str) -> None:
    assert told in how_to_mend(tmp_path, OSError(number, os.strerror(number)))


@pytest.mark.parametrize("name", ["", "new"])
def test_folder_that_cannot_be_written_is_refused(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:  # in /tmp, where every user may look
        refuse_unwritable(Path(folder, name))
        Path(folder).chmod(0o555)
        child = os.fork()
        if child == 0:  # root may write everywhere: a child process becomes another user
            status = 1
            try:
                if os.geteuid() == 0:
                    os.setuid(65534)
                refuse_unwritable(Path(folder, name))
            except ValueError as error:
                status = 0 if f"may not write to {folder}: run `sudo chown" in str(error) else 2
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize(
    ("name", "why"), [("loop/a", "its links lead in a circle"), ("n" * 256, "File name too long")]
)
def test_path_that_cannot_be_a_folder_is_refused(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ValueError, match=f"cannot be used [(]{why}[)]: choose another path"):
        refuse_as_workspace(tmp_path / name)


def test_file_or_link_in_the_place_of_a_folder_is_kept(tmp_path: Path) -> None:
    """Otherwise no later sandbox could start."""
    (tmp_path / "data").write_text("a file")
    (tmp_path / "scripts").symlink_to("/nowhere")
    (tmp_path / "results").symlink_to("results")
    prepare_workspace(tmp_path)
    assert (tmp_path / "data").read_text() == "a file"
    assert (tmp_path / "scripts").readlink() == Path("/nowhere")


@as_root
def test_folders_belong_to_the_owner_of_the_workspace(tmp_path: Path) -> None:
    os.chown(tmp_path, 1001, 1002)
    assert prepare_workspace(tmp_path) == (1001, 1002)
    assert {(tmp_path / name).stat().st_uid for name in FOLDERS} == {1001}


@as_root
def test_sandbox_never_runs_as_root_or_in_its_group(tmp_path: Path) -> None:
    assert prepare_workspace(tmp_path) == (1000, 1000)
    os.chown(tmp_path, 1001, 0)
    assert prepare_workspace(tmp_path) == (1001, 1001)


def test_workspace_that_root_cannot_make_either_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="/proc"):
        refuse_unwritable(Path("/proc/workspace"))
    refuse_unwritable(tmp_path / "workspace")
    assert list(tmp_path.iterdir()) == []


def test_path_without_a_folder_has_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "circle").symlink_to("circle")
    for name in ("missing", "file", "file/below", "circle"):
        assert folder_at(tmp_path / name) is None
    assert folder_at(tmp_path)


def test_workspace_that_is_gone_when_its_sandbox_starts_counts_as_gone(tmp_path: Path) -> None:
    watch = FolderWatch(lambda: Folders((folder_at(tmp_path / "gone"),)))
    watch.begin()
    assert watch.outdated()
    without_workspace = FolderWatch(lambda: Folders((None,), workspace=False))
    without_workspace.begin()
    assert not without_workspace.outdated()


def test_mounts_below_the_folders_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "mountinfo"
    lines = (
        "30 1 0:1 / / rw - ext4 none rw",
        "31 30 0:2 / /work\\040space rw - tmpfs none rw",
        "32 31 0:3 / /work\\040space/data rw - tmpfs none rw",
        "33 30 0:4 / /work\\040spaces/data rw - tmpfs none rw",
        "34 30 0:5 / /skills/a rw - tmpfs none rw",
    )
    table.write_text("".join(f"{line}\n" for line in lines))
    monkeypatch.setattr(workspace, "_MOUNTS", table)
    folders = (Path("/work space"), Path("/skills"))
    before = Folders(((1, 2), None), mounts_below(folders))
    assert before.mounts == {b"32 0:3 / /work\\040space/data", b"34 0:5 / /skills/a"}
    for later in ("", "34 30 0:6 / /skills/a rw\n", "34 30 0:5 /b /skills/a rw\n"):
        table.write_text("\n".join((*lines[:4], later)))
        assert replaced(before, Folders(before.places, mounts_below(folders)))
    assert not replaced(before, before)
    table.unlink()
    assert mounts_below(folders) == frozenset()


def test_disk_that_can_be_written_again_replaces_a_folder_that_could_only_be_read() -> None:
    closed, open_ = Folders(((1, 2),), read_only=True), Folders(((1, 2),))
    assert replaced(closed, open_)
    assert not replaced(open_, closed), "the mount of a running container is read-only then, too"
