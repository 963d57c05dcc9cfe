"""A path means the same to every file tool, and the same as to a command."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from libs.backends.docker import deepagents_results as answers
from libs.sandbox import FileFailed
from libs.sandbox.host.local_sandbox import LocalSandbox

TOOLS: dict[str, Callable[[LocalSandbox, str], object]] = {
    "page": lambda box, path: box.file("page", **answers.page_request(path, 0, 10)),
    "read": lambda box, path: box.file("read", path=path),
    "edit": lambda box, path: box.file("edit", path=path, old="keep", new="lost", replace_all=False),
    "delete": lambda box, path: box.file("delete", path=path),
    "write": lambda box, path: box.file("write", path=path, replace=False, content=b"lost"),
    "upload": lambda box, path: box.file("write", path=path, replace=True, content=b"lost"),
    "grep": lambda box, path: box.file("grep", path=path, text="keep", pattern=None, most=None),
}


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSandbox]:
    with LocalSandbox(tmp_path_factory.mktemp("box")) as box:
        yield box


@pytest.fixture
def place(box: LocalSandbox) -> Iterator[Path]:
    place = box.root / "place"
    (place / "folder" / "inner").mkdir(parents=True)
    (place / "file").write_text("keep")
    (place / "link").symlink_to("folder/inner")
    (place / "dangling").symlink_to("nowhere")
    yield place
    subprocess.run(["rm", "-rf", place], check=True)


def tree(place: Path) -> dict[str, str]:
    return {
        str(path.relative_to(place)): path.read_text() if path.is_file() else "" for path in place.rglob("*")
    }


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("missing/../file", "file_not_found"),
        ("folder/missing/../../file", "file_not_found"),
        ("missing/../new", "file_not_found"),
        ("dangling/../file", "file_not_found"),
        ("file/../file", "not_a_directory"),
        ("file/../new", "not_a_directory"),
        ("file/..", "not_a_directory"),
        ("file/", "not_a_directory"),
        ("file/.", "not_a_directory"),
    ],
)
def test_path_through_what_is_no_folder_is_refused(
    box: LocalSandbox, place: Path, tool: str, path: str, code: str
) -> None:
    before = tree(place)
    with pytest.raises(FileFailed) as failed:
        TOOLS[tool](box, f"{place}/{path}")
    assert failed.value.code == code
    assert tree(place) == before


@pytest.mark.parametrize("tool", TOOLS)
def test_parent_of_a_link_is_the_parent_of_its_target(box: LocalSandbox, place: Path, tool: str) -> None:
    (place / "folder" / "other").write_text("keep")
    if tool == "write":
        (place / "folder" / "other").unlink()
    TOOLS[tool](box, f"{place}/link/../other")
    left = tree(place).get("folder/other")
    assert left == {"edit": "lost", "upload": "lost", "write": "lost", "delete": None}.get(tool, "keep")
    assert "other" not in tree(place)


@pytest.mark.parametrize("tool", ["edit", "page", "upload", "read"])
def test_link_to_a_file_with_a_slash_is_refused(box: LocalSandbox, place: Path, tool: str) -> None:
    (place / "odd").symlink_to("file/")
    with pytest.raises(FileFailed) as failed:
        TOOLS[tool](box, f"{place}/odd")
    assert failed.value.code == "not_a_directory"
    assert (place / "file").read_text() == "keep"


def test_link_is_deleted_only_by_its_name_without_a_slash(box: LocalSandbox, place: Path) -> None:
    before = tree(place)
    with pytest.raises(FileFailed, match="leave the slash out") as failed:
        TOOLS["delete"](box, f"{place}/link/")
    assert failed.value.code == "invalid_path"
    assert tree(place) == before
    TOOLS["delete"](box, f"{place}/link")
    assert tree(place) == {path: text for path, text in before.items() if path != "link"}


@pytest.mark.parametrize("path", ["new/", "new/folder/", "new/.", "new/.."])
def test_new_file_needs_a_name(box: LocalSandbox, place: Path, path: str) -> None:
    with pytest.raises(FileFailed, match="names a folder: give the path of a file") as failed:
        TOOLS["write"](box, f"{place}/{path}")
    assert failed.value.code == "invalid_path"
    with pytest.raises(FileFailed, match="Is a directory"):
        TOOLS["write"](box, f"{place}/folder/")


@pytest.mark.parametrize("texts", [{"old": "\udcff", "new": ""}, {"old": "keep", "new": "\udcff"}])
def test_text_that_is_not_utf_8_is_no_error_of_the_path(
    box: LocalSandbox, place: Path, texts: dict[str, str]
) -> None:
    with pytest.raises(FileFailed, match="character 1 is half of a surrogate pair") as failed:
        box.file("edit", path=f"{place}/file", replace_all=False, **texts)
    assert failed.value.code == "half_character"
    assert (place / "file").read_text() == "keep"


def test_missing_folders_of_a_new_file_are_made(box: LocalSandbox, place: Path) -> None:
    TOOLS["write"](box, f"{place}/folder/../new/./deep/file")
    assert tree(place)["new/deep/file"] == "lost"
