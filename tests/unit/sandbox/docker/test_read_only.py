"""No spelling of a skill's path allows a change, and no entry is listed twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deepagents.backends import LocalShellBackend
from deepagents.backends.protocol import (
    EditResult,
    FileDownloadResponse,
    FileUploadResponse,
    GlobResult,
    GrepResult,
    LsResult,
    WriteResult,
)

from libs.backends.read_only_backend import ReadOnlyBackend
from libs.backends.workspace_backend import WorkspaceBackend


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A file system laid out as in the sandbox."""
    for name, text in {
        "skills/csv/SKILL.md": "needle in a skill\n",
        "skills/csv/.hidden": "needle\n",
        "skills.d/extra/pdf/SKILL.md": "needle\n",
        "workspace/data/sales.csv": "region,needle\n",
        "workspace/note.md": "needle\n",
        "usr/share/words": "needle\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.fixture
def backend(disk: Path) -> WorkspaceBackend:
    return WorkspaceBackend(
        LocalShellBackend(root_dir=disk, virtual_mode=True), read_only=("/skills", "/skills.d/extra")
    )


def snapshot(disk: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in disk.rglob("*") if path.is_file()}


SPELLINGS = [
    "/skills/csv/SKILL.md",
    "/skills/.new",
    "//skills/csv/SKILL.md",
    "///skills//csv/./SKILL.md",
    "/skills/../skills/csv/SKILL.md",
    "/workspace/../skills/csv/SKILL.md",
    "../skills/csv/SKILL.md",
    "/./skills/csv/SKILL.md/",
    "/skills",
    "//skills/",
    "/skills.d/extra/pdf/SKILL.md",
    "/skills.d/extra/new.md",
    "/skills.d/extra",
]

CHANGES: dict[str, Callable[[WorkspaceBackend, str], str | None]] = {
    "write": lambda b, path: b.write(path, "x").error,
    "edit": lambda b, path: b.edit(path, "needle", "x").error,
    "delete": lambda b, path: b.delete(path).error,
    "upload": lambda b, path: b.upload_files([(path, b"x")])[0].error,
}


@pytest.mark.parametrize("change", CHANGES)
def test_skill_cannot_be_changed(disk: Path, backend: WorkspaceBackend, change: str) -> None:
    before = snapshot(disk)
    for path in SPELLINGS:
        error = CHANGES[change](backend, path)
        assert error == "permission_denied" if "upload" in change else error and "is read-only" in error, path
    assert snapshot(disk) == before
    assert backend.write("//skills/csv/SKILL.md", "x") == WriteResult(
        error="Error: /skills/csv/SKILL.md is read-only, like all of /skills. "
        "Work below /workspace, on a copy of what is to change."
    )


def test_other_files_can_be_changed(disk: Path, backend: WorkspaceBackend) -> None:
    assert backend.write("/workspace/new.md", "one").error is None
    assert backend.edit("/workspace/new.md", "one", "two") == EditResult(
        path="/workspace/new.md", occurrences=1
    )
    assert backend.upload_files([("/workspace/up", b"x"), ("/skills/up", b"x")]) == [
        FileUploadResponse(path="/workspace/up"),
        FileUploadResponse(path="/skills/up", error="permission_denied"),
    ]
    assert (disk / "workspace/new.md").read_text() == "two"
    assert backend.delete("/workspace/new.md").error is None
    assert not (disk / "workspace/new.md").exists()
    assert (disk / "workspace/up").read_bytes() == b"x"


def paths(result: LsResult | GlobResult | GrepResult) -> list[str]:
    assert result.error is None
    found = result.entries if isinstance(result, LsResult) else result.matches
    return [entry["path"] for entry in found or []]


def test_skills_are_read_and_found_at_their_paths(backend: WorkspaceBackend) -> None:
    data = backend.read("//skills/csv/SKILL.md").file_data
    assert data is not None
    assert data["content"].rstrip("\n") == "needle in a skill"
    assert backend.download_files(["/skills/csv/SKILL.md", "/skills.d/extra/pdf/SKILL.md"]) == [
        FileDownloadResponse(path="/skills/csv/SKILL.md", content=b"needle in a skill\n"),
        FileDownloadResponse(path="/skills.d/extra/pdf/SKILL.md", content=b"needle\n"),
    ]
    assert [path.rstrip("/") for path in paths(backend.ls("/skills"))] == ["/skills/csv"]
    assert paths(backend.glob("*.md", "/skills/")) == ["/skills/csv/SKILL.md"]
    assert sorted(paths(backend.grep("needle", "/skills"))) == ["/skills/csv/.hidden", "/skills/csv/SKILL.md"]


async def test_matches_beside_an_error_keep_their_paths(disk: Path) -> None:
    class PartlyRead(LocalShellBackend):
        async def agrep(self, *args: Any, **options: Any) -> GrepResult:
            return replace(await super().agrep(*args, **options), error="Not searched to the end")

    backend = WorkspaceBackend(PartlyRead(root_dir=disk, virtual_mode=True))
    for folder in ("/skills", "/skills/csv", "/workspace/../skills/"):
        found = await backend.agrep("in a skill", folder)
        assert found.error == "Not searched to the end"
        assert [match["path"] for match in found.matches or []] == ["/skills/csv/SKILL.md"]


async def test_no_entry_is_listed_twice(backend: WorkspaceBackend) -> None:
    for listing in (backend.ls("/"), await backend.als("//"), backend.ls("/workspace/..")):
        names = [path.rstrip("/") for path in paths(listing)]
        assert names.count("/skills") == 1
        assert len(names) == len(set(names))


async def test_search_without_a_path_stays_in_the_workspace(backend: WorkspaceBackend) -> None:
    inside = ["/workspace/data/sales.csv", "/workspace/note.md"]
    for path in (None, "/", "//", "."):
        assert sorted(paths(backend.grep("needle", path))) == inside
        assert sorted(paths(await backend.aglob("*.*", path))) == inside


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("/workspace/data/*.csv", ["/workspace/data/sales.csv"]),
        ("/skills/../workspace/./data/*.csv", ["/workspace/data/sales.csv"]),
        ("/skills/**/*.md", ["/skills/csv/SKILL.md"]),
        ("/*.md", ["/workspace/note.md"]),
        ("data/*.csv", ["/workspace/data/sales.csv"]),
    ],
)
async def test_absolute_pattern_is_searched_from_its_folder(
    backend: WorkspaceBackend, pattern: str, expected: list[str]
) -> None:
    assert paths(await backend.aglob(pattern)) == expected


async def test_workspace_folder_hides_no_folder_of_the_system(backend: WorkspaceBackend, disk: Path) -> None:
    (disk / "workspace/usr/share").mkdir(parents=True)
    assert paths(await backend.aglob("/usr/share/w*")) == ["/usr/share/words"]
    assert paths(await backend.aglob("/**/w*")) == []


def test_dots_end_at_the_root_of_the_view(disk: Path) -> None:
    view = ReadOnlyBackend(LocalShellBackend(root_dir=disk, virtual_mode=True), "/skills")
    assert view.read("/../workspace/note.md").error
    assert [path.rstrip("/") for path in paths(view.ls("/../.."))] == ["/csv"]
    assert view.download_files(["../../workspace/note.md"])[0].content is None
