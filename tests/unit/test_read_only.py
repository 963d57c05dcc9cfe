"""No spelling of a skill path changes a skill, and nothing is listed twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

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

from libs.backends.read_only import ReadOnlyBackend
from libs.backends.workspace import WorkspaceBackend


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """The root of the file system that the backend shows, laid out as in the sandbox."""
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
    "/skills/csv/.hidden",
    "/skills/.new",
    "/skills/new.md",
    "//skills/csv/SKILL.md",
    "///skills//csv/./SKILL.md",
    "/skills/../skills/csv/SKILL.md",
    "/workspace/../skills/csv/SKILL.md",
    "../skills/csv/SKILL.md",
    "/skills/csv/../../skills/csv/SKILL.md",
    "/./skills/csv/SKILL.md/",
    "/skills",
    "/skills/",
    "//skills",
    "/skills.d/extra/pdf/SKILL.md",
    "/skills.d/extra/new.md",
    "/skills.d/extra",
]

CHANGES: dict[str, Callable[[WorkspaceBackend, str], str | None]] = {
    "write": lambda b, path: b.write(path, "x").error,
    "awrite": lambda b, path: asyncio.run(b.awrite(path, "x")).error,
    "edit": lambda b, path: b.edit(path, "needle", "x").error,
    "aedit": lambda b, path: asyncio.run(b.aedit(path, "needle", "x", replace_all=True)).error,
    "delete": lambda b, path: b.delete(path).error,
    "adelete": lambda b, path: asyncio.run(b.adelete(path)).error,
    "upload": lambda b, path: b.upload_files([(path, b"x")])[0].error,
    "aupload": lambda b, path: asyncio.run(b.aupload_files([(path, b"x")]))[0].error,
}


@pytest.mark.parametrize("path", SPELLINGS)
@pytest.mark.parametrize("change", CHANGES)
def test_a_skill_cannot_be_changed(disk: Path, backend: WorkspaceBackend, change: str, path: str) -> None:
    before = snapshot(disk)
    error = CHANGES[change](backend, path)
    assert error == "permission_denied" if "upload" in change else error and "is read-only" in error
    assert snapshot(disk) == before


def test_the_refusal_says_what_to_do_instead(backend: WorkspaceBackend) -> None:
    assert backend.write("//skills/csv/SKILL.md", "x") == WriteResult(
        error="Error: /skills/csv/SKILL.md is read-only. Copy it to /workspace and change the copy."
    )


def test_everything_else_can_be_changed(disk: Path, backend: WorkspaceBackend) -> None:
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


def test_skills_are_read_at_the_path_they_are_shown(backend: WorkspaceBackend) -> None:
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


async def test_the_async_twins_read_the_same(backend: WorkspaceBackend) -> None:
    assert (await backend.aread("/skills/csv/SKILL.md")) == backend.read("/skills/csv/SKILL.md")
    assert (await backend.als("/skills")) == backend.ls("/skills")
    assert paths(await backend.aglob("*.md", "/skills")) == ["/skills/csv/SKILL.md"]
    assert (await backend.agrep("needle", "/skills")) == backend.grep("needle", "/skills")
    assert (await backend.adownload_files(["/skills/csv/SKILL.md"]))[0].content == b"needle in a skill\n"


async def test_nothing_is_listed_twice(backend: WorkspaceBackend) -> None:
    for listing in (backend.ls("/"), await backend.als("//"), backend.ls("/workspace/..")):
        names = [path.rstrip("/") for path in paths(listing)]
        assert names.count("/skills") == 1
        assert len(names) == len(set(names))


async def test_searching_without_a_path_stays_in_the_workspace(backend: WorkspaceBackend) -> None:
    inside = ["/workspace/data/sales.csv", "/workspace/note.md"]
    for path in (None, "/", "//", "."):
        assert sorted(paths(backend.grep("needle", path))) == inside
        assert sorted(paths(await backend.agrep("needle", path))) == inside
        assert sorted(paths(backend.glob("*.*", path))) == inside
        assert sorted(paths(await backend.aglob("*.*", path))) == inside


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("/workspace/data/*.csv", ["/workspace/data/sales.csv"]),
        ("/workspace/**/*.csv", ["/workspace/data/sales.csv"]),
        ("/workspace/note.md", ["/workspace/note.md"]),
        ("/skills/**/*.md", ["/skills/csv/SKILL.md"]),
        ("/*.md", ["/workspace/note.md"]),
        ("data/*.csv", ["/workspace/data/sales.csv"]),
    ],
)
async def test_an_absolute_pattern_is_searched_from_its_folder(
    backend: WorkspaceBackend, pattern: str, expected: list[str]
) -> None:
    assert paths(backend.glob(pattern)) == expected
    assert paths(await backend.aglob(pattern)) == expected


def test_dots_end_at_the_root_of_the_view(disk: Path) -> None:
    view = ReadOnlyBackend(LocalShellBackend(root_dir=disk, virtual_mode=True), "/skills")
    assert view.read("/../workspace/note.md").error
    assert [path.rstrip("/") for path in paths(view.ls("/../.."))] == ["/csv"]
    assert view.download_files(["../../workspace/note.md"])[0].content is None


@pytest.mark.parametrize("root", ["/", "//", "skills", ""])
def test_a_view_needs_a_folder(disk: Path, root: str) -> None:
    with pytest.raises(ValueError, match="absolute path below /"):
        ReadOnlyBackend(LocalShellBackend(root_dir=disk, virtual_mode=True), root)


def test_commands_run_in_the_sandbox(backend: WorkspaceBackend) -> None:
    assert backend.execute("echo hi", timeout=5).output.strip() == "hi"
