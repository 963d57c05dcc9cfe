"""A workspace that takes no more (S11): it is said, nothing is lost, and it goes on once there is room."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from libs.backends.docker import DockerExecutionBackend

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
    with DockerExecutionBackend(workspace, name="full") as backend:
        assert backend.write("/workspace/note", "before\n").error is None
        done = backend.execute(FULL)
        assert done.exit_code != 0
        assert "No space left on device" in done.output
        yield backend
        backend.execute("rm -rf /workspace/* /workspace/.output")


def test_files_are_refused_whole(full: DockerExecutionBackend, workspace: Path) -> None:
    for error in (
        full.write("/data/new", "x" * 100_000).error,
        full.edit("/workspace/note", "before", "y" * 100_000).error,
        full.upload_files([("/workspace/note", b"z" * 100_000)])[0].error,
    ):
        assert "No space left on device" in str(error)
    assert (workspace / "note").read_text() == "before\n"
    assert not (workspace / "data/new").exists()
    assert not list(workspace.rglob("*.part"))


def test_output_that_cannot_be_kept_says_so(full: DockerExecutionBackend) -> None:
    done = full.execute("seq 200000")
    assert done.exit_code == 0
    assert done.truncated
    assert "characters left out; " in done.output
    assert "the whole output is in" not in done.output
    assert done.output.endswith("\n200000\n")


def test_it_goes_on_once_there_is_room(full: DockerExecutionBackend) -> None:
    assert full.execute("rm /workspace/filler; echo on > /workspace/on; cat /workspace/on").output == "on\n"
    assert full.edit("/workspace/note", "before", "after").error is None


def test_a_sandbox_starts_on_it(full: DockerExecutionBackend) -> None:
    full.reset()
    assert full.execute("echo on").output == "on\n"


def test_one_that_is_full_from_the_beginning_says_what_mends_it(tmp_path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k,nr_inodes=2", "tmpfs", tmp_path], check=True)
    try:
        with DockerExecutionBackend(tmp_path, name="full") as backend:
            done = backend.execute("true")
        assert done.exit_code == 125
        assert "No space left on device" in done.output
        assert f"df -h {tmp_path}" in done.output
    finally:
        subprocess.run(["umount", tmp_path], check=True)
