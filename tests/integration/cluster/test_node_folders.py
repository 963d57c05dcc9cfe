"""Skills and common data on the nodes: they arrive, changes follow, and nobody inside can change them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path

import pytest

from libs.sandbox.cluster import Cluster, ClusterSandbox, Folder, ray_client
from tests.support.sandboxes import IMAGE
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def skills(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("skills")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def sandboxes(joined: Cluster, skills: Path, data: Path) -> Iterator[list[ClusterSandbox]]:
    """A sandbox on each node."""
    folders = {"/skills": Folder(skills), "/workspace/data": Folder(data)}
    joined.place().free()  # this process is in the cluster now
    nodes = [node.id for node in ray_client.living_nodes() if node.room]
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                ClusterSandbox(joined, image=IMAGE, name="folders", read_only=folders, node=node)
            )
            for node in nodes
        ]


def shows(sandboxes: list[ClusterSandbox], command: str, expected: str) -> None:
    """Wait until a command prints the expected text on each node."""
    for sandbox in sandboxes:
        eventually(lambda sandbox=sandbox: sandbox.run(command).output == expected)


def test_folders_arrive_with_modes_and_links(
    sandboxes: list[ClusterSandbox], skills: Path, data: Path
) -> None:
    (skills / "table").mkdir()
    (skills / "table" / "SKILL.md").write_text("one\n")
    (skills / "table" / "run").write_text("#!/bin/sh\necho ran\n")
    (skills / "table" / "run").chmod(0o700)
    (skills / "table" / "SKILL.md").chmod(0o600)
    (skills / "link").symlink_to("table/SKILL.md")
    os.mkfifo(skills / "fifo")
    (data / "empty").touch()
    (data / "large").write_bytes(os.urandom(9_000_000))  # several pieces
    shows(
        sandboxes,
        "cd /skills; find . -mindepth 1 -printf '%P %y %m %l\\n' | sort; cat link",
        "link l 777 table/SKILL.md\ntable d 755 \ntable/SKILL.md f 644 \ntable/run f 744 \none\n",
    )
    digest = sha256((data / "large").read_bytes()).hexdigest()
    shows(sandboxes, "cd /data; ls; sha256sum < large", f"empty\nlarge\n{digest}  -\n")


def test_changes_arrive_in_running_sandboxes(sandboxes: list[ClusterSandbox], skills: Path) -> None:
    place = skills / "changing"
    place.mkdir()
    (place / "a").write_text("one\n")
    list_all = "cd /skills/changing; find . -mindepth 1 -printf '%P %y\\n' | sort; cat a"
    shows(sandboxes, list_all, "a f\none\n")
    containers = [each.container_name for each in sandboxes]
    (place / "a").write_text("two\n")
    (place / "b").mkdir()
    (place / "b" / "c").write_text("three\n")
    shows(sandboxes, list_all, "a f\nb d\nb/c f\ntwo\n")
    (place / "b" / "c").unlink()
    (place / "b").rmdir()
    (place / "b").write_text("a file now\n")
    shows(sandboxes, list_all, "a f\nb f\ntwo\n")
    (place / "b").unlink()
    (place / "b").symlink_to("a")
    shows(sandboxes, list_all, "a f\nb l\ntwo\n")
    (place / "b").unlink()
    (place / "b").mkdir()
    (place / "b" / "d").touch()
    shows(sandboxes, list_all, "a f\nb d\nb/d f\ntwo\n")
    assert [each.container_name for each in sandboxes] == containers


@pytest.mark.parametrize("folder", ["/skills", "/data", "/workspace/data"])
def test_folders_are_read_only_inside(
    sandboxes: list[ClusterSandbox], skills: Path, data: Path, folder: str
) -> None:
    (skills / "kept").write_text("kept\n")
    (data / "kept").write_text("kept\n")
    shows(sandboxes, f"cat {folder}/kept", "kept\n")
    for sandbox in sandboxes:
        for attempt in ("echo x > kept", "rm kept", "touch new", "chmod 777 kept", "mv kept moved"):
            answer = sandbox.run(f"cd {folder}; {attempt}")
            assert answer.exit_code != 0, attempt
            assert "Read-only file system" in answer.output
    shows(sandboxes, f"cat {folder}/kept", "kept\n")
