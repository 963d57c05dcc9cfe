"""Files of a snapshot are copied to a folder of this machine."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agent.threads import NotEmpty, copy_files
from libs.workspace import ContentMissing, Entry, Manifest

TIME = 1_700_000_000_000_000_000


def file(mode: int = 0o644) -> Entry:
    return Entry("file", mode, TIME, 4, "0" * 64, None)


async def read(path: str) -> bytes:
    if path == "/workspace/lost":
        raise ContentMissing("The content is gone.", hint="")
    return b"text"


def test_files_are_copied_with_mode_and_time_and_the_rest_is_named(tmp_path: Path) -> None:
    entries = {
        "/results": Entry("dir", 0o755, 0, 0, None, None),
        "/results/run": file(0o4755),
        "/results/closed": file(0),
        "/scripts/empty": Entry("dir", 0, 0, 0, None, None),
        "/workspace/deep/in/a": file(),
        "/workspace/link": Entry("link", 0o777, 0, 0, None, "/etc/passwd"),
        "/workspace/lost": file(),
        "/workspace/large": Entry("file", 0o644, 0, 10**9, None, None),
    }
    copy = tmp_path / "new" / "copy"
    manifest = Manifest(entries, {"/workspace/large": "over the limit"})
    left = asyncio.run(copy_files(manifest, read, copy))
    assert left.keys() == {"/workspace/large", "/workspace/link", "/workspace/lost"}
    assert left["/workspace/link"] == "a link to /etc/passwd"
    made = {str(each.relative_to(copy)): each.stat() for each in copy.rglob("*") if each.is_file()}
    assert {path: oct(stat.st_mode & 0o7777) for path, stat in made.items()} == {
        "results/run": "0o755",
        "results/closed": "0o600",
        "deep/in/a": "0o644",
    }
    assert {stat.st_mtime_ns for stat in made.values()} == {TIME}
    assert (copy / "scripts" / "empty").is_dir()


@pytest.mark.parametrize("there", ["file", "full"])
def test_only_a_new_or_an_empty_folder_is_filled(tmp_path: Path, there: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(NotEmpty, match="name a new or an empty folder"):
        asyncio.run(copy_files(Manifest({"/results/a": file()}), read, tmp_path / there))
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "full", "mine"]
