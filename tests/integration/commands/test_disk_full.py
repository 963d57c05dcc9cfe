"""A full or read-only disk: errors name it, no file is lost, and work continues when it can be written."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from libs.backends.docker import DockerExecutionBackend
from tests.support.sandboxes import IMAGE, NEW_SANDBOX, RUNTIME

pytestmark = pytest.mark.docker

FULL = "head -c 100M /dev/zero > /workspace/filler"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A disk of 4 MB."""
    assert os.geteuid() == 0, "only root can mount a small disk"
    root = tmp_path_factory.mktemp("small")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", root], check=True)
    yield root
    subprocess.run(["umount", root], check=True)


@pytest.fixture
def full(workspace: Path) -> Iterator[DockerExecutionBackend]:
    with DockerExecutionBackend(workspace, name="full", image=IMAGE, runtime=RUNTIME) as backend:
        assert backend.write("/workspace/note", "before\n").error is None
        done = backend.execute(FULL)
        assert done.exit_code != 0
        assert "No space left on device" in done.output
        yield backend
        backend.execute("rm -rf /workspace/* /workspace/.output")


def test_file_changes_are_refused_and_leave_no_part(full: DockerExecutionBackend, workspace: Path) -> None:
    for error in (
        full.write("/data/new", "x" * 100_000).error,
        full.edit("/workspace/note", "before", "y" * 100_000).error,
        full.upload_files([("/workspace/note", b"z" * 100_000)])[0].error,
    ):
        assert "No space left on device: remove files there" in str(error)
    assert (workspace / "note").read_text() == "before\n"
    assert not (workspace / "data/new").exists()
    assert not list(workspace.rglob("*.part"))


def test_sandbox_starts_on_a_full_disk_and_works_when_there_is_room(full: DockerExecutionBackend) -> None:
    full.reset()
    assert full.execute("echo on").output == f"{NEW_SANDBOX}on\n"
    assert full.execute("rm /workspace/filler; echo on > /workspace/on; cat /workspace/on").output == "on\n"
    assert full.edit("/workspace/note", "before", "after").error is None


def test_start_on_a_disk_without_inodes_has_a_hint(tmp_path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k,nr_inodes=2", "tmpfs", tmp_path], check=True)
    try:
        with DockerExecutionBackend(tmp_path, name="full", image=IMAGE, runtime=RUNTIME) as backend:
            done = backend.execute("true")
        assert done.exit_code == 125
        assert "No space left on device" in done.output
        assert f"df -h {tmp_path}" in done.output
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_read_only_disk_is_named_as_the_cause(tmp_path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", tmp_path], check=True)
    try:
        with DockerExecutionBackend(tmp_path, name="full", image=IMAGE, runtime=RUNTIME) as backend:
            backend.execute("mkdir sub; echo one | tee file sub/file; ln -s /etc/passwd link")
            subprocess.run(["mount", "-o", "remount,ro", tmp_path], check=True)
            assert "Read-only file system. Choose" in str(backend.write("/etc/new", "x").error)
            for error in (
                backend.write("/workspace/new", "x").error,
                backend.edit("/workspace/file", "one", "two").error,
                backend.delete("/workspace/file").error,
                backend.delete("/workspace/link").error,
            ):
                assert "the whole workspace is read-only" in str(error)
            assert "Read-only file system" in str(backend.delete("/workspace/sub").error)
            backend.reset()
            started = backend.execute("true")
            assert started.exit_code == 125
            assert f"The workspace {tmp_path} cannot be used: Read-only file system. Make" in started.output
            subprocess.run(["mount", "-o", "remount,rw", tmp_path], check=True)
            assert backend.edit("/workspace/file", "one", "two").error is None
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_disk_that_was_read_only_at_the_start_can_be_written_again(tmp_path: Path) -> None:
    """The mount of a container stays read-only, so a new container starts."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "uid=1000,gid=1000", "tmpfs", tmp_path], check=True)
    try:
        with DockerExecutionBackend(tmp_path, name="full", image=IMAGE, runtime=RUNTIME) as backend:
            backend.execute("true")
            backend.reset()
            subprocess.run(["mount", "-o", "remount,ro", tmp_path], check=True)
            assert "the whole workspace is read-only" in str(backend.write("/workspace/new", "x").error)
            subprocess.run(["mount", "-o", "remount,rw", tmp_path], check=True)
            time.sleep(1.1)  # the folder is looked at once in a second
            assert backend.write("/workspace/new", "x").error is None
            assert backend.execute("cat new").output == f"{NEW_SANDBOX}x"
    finally:
        subprocess.run(["umount", tmp_path], check=True)
