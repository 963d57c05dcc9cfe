"""Arguments of the backend: paths as strings, and folders that are refused at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from libs.backends.docker import DockerExecutionBackend
from libs.sandbox.docker.container import DockerSandbox


def test_paths_may_be_strings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("skills", "more"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    made = [
        DockerExecutionBackend(kind("work"), skills_dir=kind("skills"), extra_skills=[kind("more")]).sandbox
        for kind in (str, Path)
    ]
    for sandbox in made:
        assert isinstance(sandbox, DockerSandbox)
        assert sandbox.root == tmp_path / "work"
        assert sandbox._read_only == {"/skills": tmp_path / "skills", "/skills.d/more": tmp_path / "more"}


@pytest.mark.parametrize(
    ("root", "error"),
    [
        (
            "file",
            r"^the workspace \S+/file cannot be used, because \S+/file is not a folder: choose another path$",
        ),
        ("file/below", r"^the workspace \S+/file/below cannot be used, because \S+/file is not a folder"),
        ("/usr", "^the workspace /usr is not a folder of its own: choose one that holds the agent's files"),
        ("home", r"^the workspace \S+/home is not a folder of its own"),
    ],
)
def test_path_that_cannot_be_a_workspace_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: str, error: str
) -> None:
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with pytest.raises(ValueError, match=error):
        DockerExecutionBackend(os.path.join(tmp_path, root))  # noqa: PTH118 - a string


def test_missing_skill_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the skill folder none is not there: make it, or leave it out"):
        DockerExecutionBackend(tmp_path, skills_dir="none")
