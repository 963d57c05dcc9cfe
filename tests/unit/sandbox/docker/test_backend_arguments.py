"""Arguments of the backend: paths as strings, and folders that are refused at once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from libs.backends.docker import DockerExecutionBackend
from libs.sandbox import SandboxError
from libs.sandbox.docker.container import DockerSandbox
from libs.sandbox.docker.container_config import variables


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


@pytest.mark.parametrize(("given", "name"), [(".", "here"), ("..", "above"), ("../here", "here")])
def test_folder_of_skills_has_its_name_inside_however_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, name: str
) -> None:
    folder = tmp_path / "above" / "here"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    sandbox = DockerExecutionBackend(tmp_path / "work", extra_skills=[given]).sandbox
    assert isinstance(sandbox, DockerSandbox)
    assert list(sandbox._read_only) == [f"/skills.d/{name}"]


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
        ("caf\udce9", r"^the path of the workspace is not UTF-8, choose another: \S+\\udce9'"),
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


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"scope": "threads"}, "scope is 'threads': write 'shared' or 'thread'"),
        ({"image": ""}, "image is empty: name an image, or leave it out"),
        ({"limits": None}, "limits is None: give SandboxLimits"),
        ({"warm": -1}, "warm is -1: give the number of spare containers"),
        ({"env_allow": "LANG"}, r"give a list of patterns, \['LANG'\]"),
    ],
)
def test_wrong_value_is_refused(tmp_path: Path, given: dict[str, Any], error: str) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        DockerExecutionBackend(tmp_path / "work", **given)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("caf\udce9", "'MY_PLACE' cannot be passed: character 13 is half of a surrogate pair"),
        ("a\0b", "'MY_PLACE' holds a NUL character"),
        ("x" * 131_072, "MY_PLACE has 131,081 bytes with its name: at most 131,071 fit"),
    ],
)
def test_variable_that_the_engine_would_change_is_refused(value: str, why: str) -> None:
    """The Engine replaces bytes that are not UTF-8, and cannot start a container with a large variable."""
    with pytest.raises(SandboxError, match=why) as refused:
        variables({"MY_PLACE": value}, None)
    assert "SANDBOX_ENV_ALLOW" in refused.value.hint
