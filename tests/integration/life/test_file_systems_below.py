"""A file system is mounted below the workspace on the host: a running container does not see that."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from libs.persistence.thread_database import SqliteDatabase
from libs.sandbox.docker import DockerSandbox
from libs.workspace import Catalog, Contents, WorkspaceStore
from tests.support.sandboxes import IMAGE, NEW_SANDBOX, RUNTIME

pytestmark = pytest.mark.docker

BELOW = (
    "[on the host, a file system was mounted below the workspace or a mounted folder, or was unmounted: "
    "files there may differ]\n"
)


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[DockerSandbox]:
    data = tmp_path / "data"
    data.mkdir()
    (data / "input").touch()
    with DockerSandbox(
        tmp_path / "workspace",
        image=IMAGE,
        runtime=RUNTIME,
        name="behaviour",
        read_only={"/workspace/data": data},
    ) as made:
        yield made


@pytest.fixture
def place(sandbox: DockerSandbox) -> Iterator[Path]:
    """A folder of the workspace, on the host."""
    sandbox.run("mkdir disk; echo below > disk/file", note_new=True)
    place = sandbox.root / "disk"
    yield place
    for name in ("disk", "file", "device"):
        subprocess.run(["umount", sandbox.root / name], check=False, capture_output=True)


def mount(place: Path, name: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=777", "tmpfs", place], check=True)
    (place / name).touch()


def look(sandbox: DockerSandbox) -> None:
    """Make the next call look at the folders. Otherwise it looks once in a second."""
    sandbox._watch.look_soon()


def test_new_sandbox_sees_each_file_system_that_is_mounted_below(sandbox: DockerSandbox, place: Path) -> None:
    """The kernel may give the second file system the mount id of the first."""

    def listed() -> str:
        look(sandbox)
        return sandbox.run("ls disk", note_new=True).output

    assert listed() == "file\n"
    mount(place, "first")
    assert listed() == f"{NEW_SANDBOX}{BELOW}first\n"
    subprocess.run(["umount", "--lazy", place], check=True)
    mount(place, "second")
    assert listed() == f"{NEW_SANDBOX}{BELOW}second\n"
    assert listed() == "second\n"


def test_capture_names_mount_points_and_restore_leaves_them_alone(
    sandbox: DockerSandbox, place: Path, tmp_path: Path
) -> None:
    with closing(SqliteDatabase(tmp_path / "threads.sqlite")) as database:
        store = WorkspaceStore(Catalog(database), Contents(str(tmp_path / "snapshots")))
        before = store.capture(sandbox)
        assert not before.skipped, "the sandbox's own mount is no part of the workspace"
        mount(place, "first")
        points = {"disk": None, "file": tmp_path / "data" / "input", "device": Path("/dev/null")}
        for name, source in points.items():
            if source:
                (sandbox.root / name).touch()
                subprocess.run(["mount", "--bind", source, sandbox.root / name], check=True)
        look(sandbox)
        mounted = store.capture(sandbox)
        why = "something else is mounted there"
        assert mounted.skipped == {f"/workspace/{name}": why for name in points}
        assert store.manifest(mounted.id).entries["/workspace/disk/file"].size == len("below\n")
        sandbox.run("echo > disk/second; echo > beside")
        restored = store.restore(sandbox, before.id)
        assert restored.kept.keys() == mounted.skipped.keys()
        assert not (sandbox.root / "beside").exists()
        assert {each.name for each in place.iterdir()} == {"first", "second"}
        for name in points:
            subprocess.run(["umount", sandbox.root / name], check=True)
        sandbox.reset()
        store.restore(sandbox, before.id)
        assert (place / "file").read_text() == "below\n"
        assert not (sandbox.root / "file").exists()
        assert not (sandbox.root / "device").exists()
