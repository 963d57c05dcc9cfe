"""A mirrored folder of a node holds what the folder of the server holds."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from libs.sandbox.cluster import mirror
from libs.sandbox.cluster.actor.node_folders import NodeFolders, remove_old_folders
from libs.sandbox.cluster.mirror import Folder, bring, folder_key
from libs.sandbox.process_owner import name_with

NAMES = st.sampled_from(["a", "b", "a/a", "a/b", "a/b/c", "b/a", "n\nl", "bytes\udcff"])


def content_of(place: Path) -> dict[str, object]:
    """Return path -> content, link target or None for a folder."""
    found: dict[str, object] = {}
    for path in sorted(place.rglob("*")):
        name = str(path.relative_to(place))
        found[name] = path.readlink() if path.is_symlink() else None if path.is_dir() else path.read_bytes()
    return found


def change(place: Path, kind: str, name: str, content: bytes) -> None:
    """Put a file, a folder, a link or nothing at a path, whatever was there."""
    at = place / name
    for above in reversed(at.relative_to(place).parents[:-1]):
        folder = place / above
        if folder.is_symlink() or folder.is_file():
            folder.unlink()
        folder.mkdir(exist_ok=True)
    if at.is_dir() and not at.is_symlink():
        shutil.rmtree(at)
    else:
        at.unlink(missing_ok=True)
    if kind == "file":
        at.write_bytes(content)
    elif kind == "folder":
        at.mkdir()
    elif kind == "link":
        at.symlink_to("/etc" if content else "a")


CHANGES = st.lists(
    st.tuples(st.sampled_from(["file", "folder", "link", "gone"]), NAMES, st.binary(max_size=40)), max_size=6
)


@given(rounds=st.lists(CHANGES, min_size=1, max_size=4))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_mirror_holds_what_the_folder_holds_after_any_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rounds: list[list[tuple[str, str, bytes]]]
) -> None:
    monkeypatch.setattr(mirror, "_PIECE", 7)  # several pieces of a file
    own = tmp_path / secrets.token_hex(8)
    source = own / "source"
    source.mkdir(parents=True)
    folder, nodes = Folder(source, look_seconds=-1), NodeFolders(own)
    for changes in rounds:
        for kind, name, content in changes:
            change(source, kind, name, content)
        bring(folder, folder.entries(), nodes)
        assert content_of(nodes.place(folder_key(source))) == content_of(source)


def test_only_changed_files_are_sent(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "one").write_text("1")
    (source / "two").write_text("2")
    folder, nodes = Folder(source, look_seconds=-1), Counting(tmp_path)
    bring(folder, folder.entries(), nodes)
    (source / "two").write_text("3")
    (source / "one").chmod(0o755)
    os.utime(source / "one")
    nodes.sent.clear()
    bring(folder, folder.entries(), nodes)
    mirrored = nodes.place(folder_key(source))
    assert nodes.sent == ["two"]
    assert (mirrored / "one").stat().st_mode & 0o777 == 0o755
    assert (mirrored / "one").stat().st_mtime_ns == (source / "one").stat().st_mtime_ns


class Counting(NodeFolders):
    """Notes which files are sent."""

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        self.sent: list[str] = []

    def write(self, key: str, path: str, *more: object) -> None:
        self.sent.append(path)
        super().write(key, path, *more)  # type: ignore[arg-type]


def test_mirror_is_incomplete_until_a_file_that_could_not_be_read_is_back(tmp_path: Path) -> None:
    """The entries are those of the first look: a file that was moved away and back has the same one."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "one").write_text("1")
    (source / "two").write_text("22")
    folder, nodes = Folder(source, look_seconds=-1), NodeFolders(tmp_path)
    entries = folder.entries()
    (source / "one").rename(tmp_path / "away")
    assert not bring(folder, entries, nodes)
    assert content_of(nodes.place(folder_key(source))) == {"two": b"22"}
    (tmp_path / "away").rename(source / "one")
    assert bring(folder, entries, nodes)
    assert content_of(nodes.place(folder_key(source))) == {"one": b"1", "two": b"22"}
    assert bring(folder, entries, nodes)


def test_special_files_are_left_out(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    os.mkfifo(source / "fifo")
    (source / "file").write_text("x")
    folder, nodes = Folder(source, look_seconds=-1), NodeFolders(tmp_path)
    bring(folder, folder.entries(), nodes)
    assert content_of(nodes.place(folder_key(source))) == {"file": b"x"}


def test_folders_of_ended_actors_are_removed(tmp_path: Path) -> None:
    code = "from libs.sandbox.process_owner import owner_label; print(owner_label(), end='')"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    gone = tmp_path / f"code-agent-node-{name_with(ended, '')}x"
    unknown = tmp_path / "code-agent-node-of-nobody"
    for folder in (gone, unknown):
        folder.mkdir()
    lives = NodeFolders(tmp_path).place("k")
    remove_old_folders(tmp_path)
    assert (gone.exists(), unknown.exists(), lives.exists()) == (False, True, True)
