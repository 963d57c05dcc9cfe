"""Patterns reach the folders that they name, in the container."""

from __future__ import annotations

from pathlib import Path

import pytest
from deepagents.backends.protocol import GlobResult, GrepResult

from libs.backends.docker import DockerExecutionBackend
from libs.backends.workspace_backend import WorkspaceBackend
from tests.support.sandboxes import IMAGE

pytestmark = pytest.mark.docker


def paths(found: GlobResult) -> list[str]:
    assert (found.error, found.truncated) == (None, False)
    return [match["path"] for match in found.matches or []]


def found(lines: GrepResult) -> list[str]:
    assert lines.error is None
    return [match["path"] for match in lines.matches or []]


def test_pattern_reaches_linked_folders_and_folders_of_the_system(tmp_path: Path) -> None:
    with DockerExecutionBackend(tmp_path, image=IMAGE, name="patterns") as backend:
        backend.execute("touch data/a.csv; ln -s data link")
        for searched in (backend, WorkspaceBackend(backend)):
            assert paths(searched.glob("link/*.csv")) == ["/workspace/link/a.csv"]
            assert paths(searched.glob("/link/*.csv")) == ["/workspace/link/a.csv"]
            assert paths(searched.glob("/{etc,usr}/hos[t]s")) == ["/etc/hosts"]
            assert "search in /etc" in str(searched.glob("/etc/hosts", path="/workspace").error)
        assert paths(WorkspaceBackend(backend).glob("/etc/hosts", path="/")) == ["/etc/hosts"]


def test_workspace_folder_hides_no_folder_of_the_system(tmp_path: Path) -> None:
    with DockerExecutionBackend(tmp_path, image=IMAGE, name="patterns") as backend:
        backend.execute("mkdir tmp; touch tmp/here.txt /tmp/there.log")
        for searched in (backend, WorkspaceBackend(backend)):
            assert paths(searched.glob("/tmp/*.log")) == ["/tmp/there.log"]
        assert paths(backend.glob("/tmp/*.txt")) == ["/workspace/tmp/here.txt"]
        assert paths(backend.glob("/tmp/*e.*")) == ["/workspace/tmp/here.txt", "/tmp/there.log"]
        backend.execute("mkdir data; echo x | tee tmp/here.txt data/a.txt > /tmp/there.log")
        assert found(backend.grep("x", glob="/tmp/*")) == ["/workspace/tmp/here.txt", "/tmp/there.log"]
        assert found(backend.grep("x", glob="/tmp/*", max_count=1)) == ["/workspace/tmp/here.txt"]
        assert found(backend.grep("x", glob="/data/*")) == ["/workspace/data/a.txt"]
        assert found(backend.grep("root:", glob="/etc/passwd")) == ["/etc/passwd"]
