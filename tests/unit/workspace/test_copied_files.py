"""Files of a snapshot are copied to a folder of this machine."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agent.server.json_exchange import Refused
from agent.server.routes.files.kept_files import kept_file
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


def test_what_an_earlier_snapshot_knew_of_a_closed_folder_is_not_copied(tmp_path: Path) -> None:
    entries = {
        "/results/closed": Entry("dir", 0, 0, 0, None, None),
        "/results/closed/old": file(),
        "/results/run": file(),
    }
    manifest = Manifest(entries, {"/results/closed": "permission denied"})
    assert asyncio.run(copy_files(manifest, read, tmp_path / "copy")) == dict(manifest.skipped)
    made = [str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*") if each.is_file()]
    assert made == ["copy/results/run"]
    with pytest.raises(Refused, match="not kept in this snapshot: permission denied") as refused:
        kept_file(manifest, "/results/closed/old", lambda _, path: read(path))
    assert refused.value.status == 410


def test_file_behind_a_linked_folder_is_not_called_missing() -> None:
    manifest = Manifest({"/workspace/latest": Entry("link", 0o777, 0, 0, None, "run-3")})
    with pytest.raises(Refused, match="/workspace/latest was a link to run-3"):
        kept_file(manifest, "/workspace/latest/report.csv", lambda _, path: read(path))
    assert kept_file(manifest, "/workspace/other/report.csv", lambda _, path: read(path)) is None


def test_path_that_this_machine_cannot_have_is_named_and_the_rest_is_copied(tmp_path: Path) -> None:
    deep = "/workspace" + f"/{'d' * 250}" * 20
    manifest = Manifest(
        {deep: Entry("dir", 0o755, 0, 0, None, None), f"{deep}/a": file(), "/results/run": file()}
    )
    left = asyncio.run(copy_files(manifest, read, tmp_path / "copy"))
    reason = "this machine cannot have a file of this name: File name too long"
    assert left == {deep: reason, f"{deep}/a": reason}
    assert (tmp_path / "copy/results/run").read_bytes() == b"text"


@pytest.mark.parametrize("there", ["file", "full"])
def test_only_a_new_or_an_empty_folder_is_filled(tmp_path: Path, there: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(NotEmpty, match="name a new or an empty folder"):
        asyncio.run(copy_files(Manifest({"/results/a": file()}), read, tmp_path / there))
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "full", "mine"]
