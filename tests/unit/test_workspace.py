"""The folder on the host: what is made, who owns it, and that no link leads out of it (S8)."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import time
from pathlib import Path

import pytest

from libs.sandbox.handover import Handover
from libs.sandbox.workspace import FOLDERS, how_to_mend, prepare_workspace

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to give files away")


def hand_over(root: Path) -> tuple[int, int]:
    """What a sandbox does with a workspace of root's before it starts."""
    ids = prepare_workspace(root)
    Handover(root, ids[0]).close()
    return ids


def test_missing_folders_are_made(tmp_path: Path) -> None:
    root = tmp_path / "new" / "place"
    prepare_workspace(root)
    assert FOLDERS == ("data", "scripts", "results")
    assert all((root / name).is_dir() for name in FOLDERS)


def test_it_is_the_same_however_often(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/x").write_text("kept")
    first = prepare_workspace(tmp_path)
    before = [(p, p.lstat().st_mode, p.lstat().st_uid, p.lstat().st_gid) for p in sorted(tmp_path.rglob("*"))]
    assert prepare_workspace(tmp_path) == first
    after = [(p, p.lstat().st_mode, p.lstat().st_uid, p.lstat().st_gid) for p in sorted(tmp_path.rglob("*"))]
    assert after == before
    assert (tmp_path / "data/x").read_text() == "kept"


def test_a_file_in_the_place_of_the_workspace_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "root").write_text("a file")
    with pytest.raises(OSError, match=r"."):
        prepare_workspace(tmp_path / "root")


@pytest.mark.parametrize(
    ("number", "told"),
    [(errno.ENOSPC, "df -h"), (errno.EMFILE, "max_user_instances"), (errno.EACCES, "WORKSPACE_DIR")],
)
def test_each_cause_has_what_mends_it(tmp_path: Path, number: int, told: str) -> None:
    assert told in how_to_mend(tmp_path, OSError(number, os.strerror(number)))


def test_what_a_command_has_put_in_the_place_of_a_folder_is_left_alone(tmp_path: Path) -> None:
    """It must not keep every later sandbox from starting."""
    (tmp_path / "data").write_text("a file")
    (tmp_path / "scripts").symlink_to("/nowhere")
    (tmp_path / "results").symlink_to("results")
    prepare_workspace(tmp_path)
    assert (tmp_path / "data").read_text() == "a file"
    assert (tmp_path / "scripts").readlink() == Path("/nowhere")


@as_root
class TestAsRoot:
    def test_a_root_owned_folder_is_used_as_1000(self, tmp_path: Path) -> None:
        assert hand_over(tmp_path) == (1000, 1000)
        assert tmp_path.stat().st_uid == 0
        assert (tmp_path / "data").stat().st_uid == 1000

    def test_another_owner_is_taken_and_nothing_is_given_away(self, tmp_path: Path) -> None:
        os.chown(tmp_path, 1001, 1002)
        (tmp_path / "roots").write_text("x")
        assert prepare_workspace(tmp_path) == (1001, 1002)
        assert (tmp_path / "roots").stat().st_uid == 0

    def test_the_folders_made_for_another_owner_are_theirs(self, tmp_path: Path) -> None:
        """Inside, that owner has to be able to write to them."""
        os.chown(tmp_path, 1001, 1001)
        prepare_workspace(tmp_path)
        assert {(tmp_path / name).stat().st_uid for name in FOLDERS} == {1001}

    def test_never_root_even_where_the_group_is(self, tmp_path: Path) -> None:
        os.chown(tmp_path, 1001, 0)
        uid, gid = prepare_workspace(tmp_path)
        assert (uid, gid) == (1001, 1001)

    def test_no_link_is_followed_out_of_it(self, tmp_path: Path) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "file").write_text("x")
        root = tmp_path / "root"
        root.mkdir()
        (root / "folder").symlink_to(outside)
        (root / "file").symlink_to(outside / "file")
        (root / "dangling").symlink_to("nowhere")
        (root / "loop").symlink_to("loop")
        hand_over(root)
        assert {path.stat().st_uid for path in (outside, outside / "file")} == {0}
        assert (root / "folder").lstat().st_uid == 1000
        assert "system.posix_acl_default" not in os.listxattr(outside)

    def test_a_data_folder_that_is_a_link_is_not_followed(self, tmp_path: Path) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "file").write_text("x")
        root = tmp_path / "root"
        root.mkdir()
        (root / "data").symlink_to(outside)
        hand_over(root)
        assert (outside / "file").stat().st_uid == 0

    def test_files_of_others_stay_theirs(self, tmp_path: Path) -> None:
        (tmp_path / "theirs").write_text("x")
        os.chown(tmp_path / "theirs", 1234, 1234)
        hand_over(tmp_path)
        assert (tmp_path / "theirs").stat().st_uid == 1234

    def test_the_mode_of_a_file_stays(self, tmp_path: Path) -> None:
        (tmp_path / "script").write_text("x")
        (tmp_path / "script").chmod(0o750)
        hand_over(tmp_path)
        assert stat.S_IMODE((tmp_path / "script").stat().st_mode) == 0o750

    def test_odd_files_are_no_obstacle(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "fifo")
        (tmp_path / b"bad\xff\nname".decode("utf-8", "surrogateescape")).write_text("x")
        hand_over(tmp_path)
        assert {path.lstat().st_uid for path in tmp_path.iterdir()} == {1000}

    def test_what_root_makes_later_can_be_changed_by_the_sandbox(self, tmp_path: Path) -> None:
        hand_over(tmp_path)
        (tmp_path / "data/later").mkdir()
        (tmp_path / "data/later/file").write_text("x")
        child = os.fork()
        if child == 0:
            # From within, as through a mount: the folders above are closed to others.
            os.chdir(tmp_path)
            os.setgroups([])
            os.setgid(1000)
            os.setuid(1000)
            try:
                Path("data/later/file").open("a").close()
                Path("data/later/new").touch()
            except OSError:
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0

    def test_what_comes_later_is_handed_over_when_it_catches_up(self, tmp_path: Path) -> None:
        root = tmp_path / "workspace"
        prepare_workspace(root)
        handover = Handover(root, 1000)
        assert not handover.news()
        source = tmp_path / "source/inner"
        source.mkdir(parents=True)
        (source / "file").write_text("x")
        shutil.copytree(tmp_path / "source", root / "data/copied")
        shutil.copy(source / "file", root / "top")
        (tmp_path / "source").rename(root / "data/moved")
        outside = tmp_path / "outside"
        outside.touch()
        (root / "link").symlink_to(outside)
        assert handover.news()
        handover.catch_up()
        assert {path.lstat().st_uid for path in root.rglob("*")} == {1000}
        assert outside.stat().st_uid == 0
        assert not handover.news()
        (root / "data/copied/inner/later").write_text("x")
        (root / "data/moved/inner/later").write_text("x")
        handover.catch_up()
        assert {path.lstat().st_uid for path in root.rglob("*")} == {1000}
        handover.close()

    def test_a_folder_swapped_for_a_link_leads_nowhere(self, tmp_path: Path) -> None:
        root = tmp_path / "workspace"
        prepare_workspace(root)
        handover = Handover(root, 1000)
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "secret").write_text("x")
        (root / "data/inner").mkdir()
        handover.catch_up()
        (root / "data/inner/new").write_text("x")
        shutil.rmtree(root / "data/inner")
        (root / "data/inner").symlink_to(outside)
        handover.catch_up()
        assert (outside / "secret").stat().st_uid == 0
        handover.close()

    def test_more_changes_than_the_kernel_remembers(self, tmp_path: Path) -> None:
        prepare_workspace(tmp_path)
        handover = Handover(tmp_path, 1000)
        most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
        for number in range(most + 100):
            (tmp_path / "data" / str(number)).touch()
        handover.catch_up()
        assert {path.lstat().st_uid for path in (tmp_path / "data").iterdir()} == {1000}
        handover.close()

    def test_folders_that_are_gone_are_not_remembered(self, tmp_path: Path) -> None:
        prepare_workspace(tmp_path)
        handover = Handover(tmp_path, 1000)
        watched = len(handover._watched)
        for number in range(50):
            (tmp_path / "data" / str(number)).mkdir()
            handover.catch_up()
            (tmp_path / "data" / str(number)).rmdir()
            handover.catch_up()
        assert len(handover._watched) == watched
        handover.close()

    def test_one_that_is_closed_has_no_news(self, tmp_path: Path) -> None:
        """Whoever was about to ask when it was closed must not fail."""
        prepare_workspace(tmp_path)
        handover = Handover(tmp_path, 1000)
        (tmp_path / "data" / "new").touch()
        assert handover.news()
        handover.close()
        assert not handover.news()
        handover.catch_up()

    def test_a_change_costs_no_look_at_all_the_rest(self, tmp_path: Path) -> None:
        """What a command makes above many files is handed over without going through these."""
        prepare_workspace(tmp_path)
        for number in range(400):
            (tmp_path / "data" / str(number)).mkdir()
            for name in range(25):
                (tmp_path / "data" / str(number) / str(name)).touch()
        begun = time.monotonic()
        handover = Handover(tmp_path, 1000)
        all_of_it = time.monotonic() - begun
        took = []
        for number in range(5):
            (tmp_path / f"top-{number}").touch()
            (tmp_path / "data" / f"new-{number}").mkdir()
            (tmp_path / "data" / f"new-{number}" / "file").touch()
            begun = time.monotonic()
            handover.catch_up()
            took.append(time.monotonic() - begun)
        assert min(took) < all_of_it / 20
        assert {path.lstat().st_uid for path in tmp_path.rglob("*")} == {1000}
        handover.close()

    def test_what_is_moved_is_looked_into_under_its_new_name(self, tmp_path: Path) -> None:
        prepare_workspace(tmp_path)
        handover = Handover(tmp_path, 1000)
        (tmp_path / "data/a/b").mkdir(parents=True)
        handover.catch_up()
        (tmp_path / "data/a").rename(tmp_path / "scripts/moved")
        handover.catch_up()
        (tmp_path / "scripts/moved/b/given").touch()
        (tmp_path / "data/a/b").mkdir(parents=True)
        (tmp_path / "data/a/b/given").touch()
        handover.catch_up()
        assert {path.lstat().st_uid for path in tmp_path.rglob("*")} == {1000}
        handover.close()

    def test_more_folders_than_are_watched(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The kernel's watches are for other programs, too. What is put into new ones is handed over."""
        prepare_workspace(tmp_path)
        monkeypatch.setattr("libs.sandbox.handover._MOST_WATCHED", 1_000)
        for number in range(3_000):
            (tmp_path / "data" / str(number)).mkdir()
        handover = Handover(tmp_path, 1000)
        assert handover._events
        watches = Path(f"/proc/self/fdinfo/{handover._events.number}").read_text().count("inotify wd:")
        assert watches == 1_000
        (tmp_path / "source/deep/deeper").mkdir(parents=True)
        (tmp_path / "source/deep/deeper/file").touch()
        shutil.copytree(tmp_path / "source", tmp_path / "results/copied")
        handover.catch_up()
        assert {path.lstat().st_uid for path in tmp_path.rglob("*")} == {1000}
        handover.close()
