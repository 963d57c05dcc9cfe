"""A container that is killed in the middle of captures and restores."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import docker
import pytest

from libs.sandbox import FileFailed, SandboxError
from libs.sandbox.docker.container import DockerSandbox
from tests.support.sandboxes import IMAGE, RUNTIME
from tests.support.snapshots.ending_contents import fill, snapshots_at
from tests.support.snapshots.trees import tree

pytestmark = pytest.mark.docker


def filled(root: Path, seed: int) -> None:
    """Fill the workspace with files of the sandbox's user."""
    fill(root, seed)
    owner = root.stat()
    for path in root.rglob("*"):
        os.chown(path, owner.st_uid or 1000, owner.st_gid or 1000, follow_symlinks=False)


@pytest.mark.parametrize(
    "at", [pytest.param(0, marks=pytest.mark.thorough), 2, pytest.param(4, marks=pytest.mark.thorough)]
)
def test_killed_container_leaves_no_half_restore(
    tmp_path: Path, docker_client: docker.DockerClient, name: str, at: int
) -> None:
    kills = []

    def kill() -> None:
        (container,) = docker_client.containers.list(filters={"name": name})
        container.kill()
        kills.append(at)

    root, place = tmp_path / "workspace", tmp_path / "store"
    with DockerSandbox(root, image=IMAGE, runtime=RUNTIME, name=name) as sandbox:
        sandbox.run("true")
        filled(root, 1)
        first, before = snapshots_at(place).capture(sandbox).id, tree(root)
        filled(root, 2)
        after = tree(root)
        with suppress(FileFailed, SandboxError):
            snapshots_at(place, at, kill).capture(sandbox)
        assert tree(root) == after
        store = snapshots_at(place)
        second = store.capture(sandbox).id
        with pytest.raises(SandboxError):
            snapshots_at(place, at, kill).restore(sandbox, first)
        assert len(kills) == 2
        assert tree(root) == after
        assert store.capture(sandbox).id == second
        assert not store.restore(sandbox, first).kept
        assert tree(root) == before
