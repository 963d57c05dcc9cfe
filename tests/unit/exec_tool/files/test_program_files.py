"""Files of a program: written before it, and collected after it."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from libs.exec_tool import changed_files
from libs.exec_tool.changed_files import Collected, collected
from libs.exec_tool.program_folder import program_path, put_in
from libs.persistence import FileContent, mode_of
from libs.redaction import SecretFilter
from libs.sandbox import FOLDERS
from libs.sandbox.host.local_sandbox import LocalSandbox
from libs.sandbox.pool import Fresh

LONG = "/".join(["x" * 100] * 4)


class Local(LocalSandbox):
    disk = 1 << 20


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in FOLDERS:
        (tmp_path / "workspace" / name).mkdir(parents=True)
    return tmp_path / "workspace"


@pytest.fixture
def collect(root: Path) -> Callable[..., Collected]:
    """Collect the files of `root`, which held the given files before."""

    async def work(before: dict[str, bytes]) -> Collected:
        with Local(root) as sandbox:
            return await collected(cast("Fresh", sandbox), before)

    return lambda **before: asyncio.run(work(before))


def left_out(found: Collected) -> dict[str, str]:
    """Return path -> reason."""
    return dict(found.left_out)


def put(root: Path, files: dict[str, bytes]) -> None:
    with Local(root) as sandbox:
        asyncio.run(put_in(sandbox, files))


def test_files_are_put_in_with_their_folders(root: Path) -> None:
    files = {"a/b/c.bin": bytes(range(256)), "a/empty": b"", "data/x": b"1", "scripts": b"2", LONG: b"3"}
    put(root, files)
    there = {str(path.relative_to(root)): path for path in root.rglob("*") if path.is_file()}
    assert {name: path.read_bytes() for name, path in there.items()} == files
    assert {path.stat().st_mode & 0o777 for path in there.values()} == {0o644}
    assert (root / "a" / "b").stat().st_mode & 0o777 == 0o755


def test_program_hides_no_module_of_the_workspace() -> None:
    assert not Path(program_path("python")).stem.isidentifier()


def test_modes_go_in_and_come_back(root: Path, collect: Callable[..., Collected]) -> None:
    before = {"run": FileContent(b"1", 0o755), "plain": b"2", "same": FileContent(b"3", 0o600), "shut": b"4"}
    put(root, before)
    assert [(root / name).stat().st_mode & 0o777 for name in before] == [0o755, 0o644, 0o600, 0o644]
    (root / "plain").chmod(0o755)
    (root / "run").chmod(0o4644)
    found = collect(**before)
    assert {path: (content, mode_of(content)) for path, content in found.changed.items()} == {
        "plain": (b"2", 0o755),
        "run": (b"1", 0o644),
    }


def test_file_that_cannot_be_put_in_is_named(root: Path) -> None:
    (root / "b").write_text("in the way")
    with pytest.raises(OSError, match=r"^b: "):
        put(root, {"a": b"1", "b": b"2"})
    assert (root / "b").read_text() == "in the way"


def test_new_and_changed_files_come_back(root: Path, collect: Callable[..., Collected]) -> None:
    data = bytes(range(256))
    for name, content in (
        ("same", b"1"),
        ("changed", b"2"),
        ("a/c.bin", data),
        (LONG, b"3"),
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    found = collect(same=b"1", changed=b"1", removed=b"1")
    assert found == Collected({"changed": b"2", "a/c.bin": data, LONG: b"3"}, ("removed",), ())


def test_only_regular_files_with_valid_names_come_back(root: Path, collect: Callable[..., Collected]) -> None:
    for name in ("fine", "bad\udcff"):
        (root / name).write_text("x")
    deep = "/".join(["d" * 200] * 3)
    (root / deep).mkdir(parents=True)
    (root / deep / "far").write_text("x")
    (root / "link").symlink_to("/etc/passwd")
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "socket"))
    found = collect(link=b"x", pipe=b"x")
    assert (found.changed, found.removed) == ({"fine": b"x"}, ("link", "pipe"))
    special = "a link, FIFO or device"
    assert left_out(found) == {
        "bad\\udcff": "a name that cannot be kept",
        f"{deep[:59]}…{deep[-55:]}/far": "its path has over 500 characters",
        "link": special,
        "pipe": special,
        "socket": special,
    }


def test_empty_folders_are_named(root: Path, collect: Callable[..., Collected]) -> None:
    (root / "results" / "a" / "b").mkdir(parents=True)
    (root / "full").mkdir()
    (root / "full" / "x").write_text("x")
    (root / ".git" / "refs").mkdir(parents=True)
    found = collect(kept=b"x")
    assert (found.changed, found.removed) == ({"full/x": b"x"}, ("kept",))
    assert left_out(found) == dict.fromkeys(("results/a/b", ".git/refs"), "an empty folder")


@pytest.mark.parametrize("seconds", [2**40, -(2**40)])
def test_file_with_a_time_that_is_far_away_comes_back(seconds: int) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:  # keeps any time
        (root := Path(place) / "workspace").mkdir()
        (root / "far").write_bytes(b"1")
        os.utime(root / "far", (seconds, seconds))
        assert (root / "far").stat().st_mtime == seconds
        with Local(root) as sandbox:
            found = asyncio.run(collected(cast("Fresh", sandbox), {}))
    assert found == Collected({"far": b"1"}, (), ())


async def test_link_in_the_place_of_a_folder_is_named_unless_the_folder_was_a_link(root: Path) -> None:
    for name in ("data", "results"):
        (root / name).rmdir()
        (root / name).symlink_to("scripts")
    with Local(root) as sandbox:
        found = await collected(cast("Fresh", sandbox), {}, links=["data"])
    assert left_out(found) == {"results": "a link, FIFO or device"}


@pytest.mark.parametrize("kind", ["file", "folder", "empty"])
def test_own_folder_of_the_sandbox_is_left_out_and_named(
    root: Path, collect: Callable[..., Collected], kind: str
) -> None:
    (root / "fine").write_text("x")
    if kind == "file":
        (root / ".output").write_text("x")
    else:
        (root / ".output").mkdir()
    if kind == "folder":
        (root / ".output" / "x").write_text("x")
    found = collect()
    assert found.changed == {"fine": b"x"}
    assert left_out(found) == ({} if kind == "empty" else {".output": "the sandbox's own folder"})


def test_files_over_the_count_are_left_out(
    root: Path, collect: Callable[..., Collected], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changed_files, "MOST_FILES", 5)
    for name in (*map(str, range(20)), "old"):
        (root / name).write_text("x")
    found = collect(old=b"1")
    assert (len(found.changed), found.changed["old"], len(found.left_out)) == (5, b"x", 16)
    assert set(left_out(found).values()) == {"there are over 5"}


def test_removed_files_make_room_for_new_ones(
    root: Path, collect: Callable[..., Collected], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changed_files, "MOST_FILES", 2)
    for name in ("stays", "new"):
        (root / name).write_text("x")
    found = collect(stays=b"x", a=b"1", b=b"2")
    assert (found.changed, found.removed, found.left_out) == ({"new": b"x"}, ("a", "b"), ())


def test_largest_files_are_left_out_if_all_would_fill_the_disk(
    root: Path, collect: Callable[..., Collected]
) -> None:
    for name, size in (("small", 1), ("same", 300_000), ("large", 400_000), ("old", 700_000)):
        (root / name).write_bytes(bytes(size))
    found = collect(same=bytes(300_000), old=b"1")
    assert (found.changed, found.removed, found.stale) == (
        {"small": bytes(1), "large": bytes(400_000)},
        (),
        ("old",),
    )
    assert left_out(found) == {"old, 700,000 bytes": "all files together may have 786,432 bytes"}


def test_files_that_stay_take_their_room(root: Path, collect: Callable[..., Collected]) -> None:
    """The thread keeps all files of a program or none, so what comes back must fit beside what stays."""
    for name, size in (("same", 500_000), ("less", 1), ("new", 400_000), ("small", 1)):
        (root / name).write_bytes(bytes(size))
    found = collect(same=bytes(500_000), less=b"12")
    assert found.changed == {"less": bytes(1), "small": bytes(1)}
    assert left_out(found).keys() == {"new, 400,000 bytes"}


def test_smaller_and_replaced_files_make_room(root: Path, collect: Callable[..., Collected]) -> None:
    """What a thread holds may have more bytes than come back, so there may be no room before a program."""
    (root / "log").write_bytes(bytes(500_000))
    (root / "new").write_bytes(bytes(200_000))
    (root / "old").mkdir()
    (root / "old" / "part").write_bytes(b"1")
    found = collect(log=bytes(900_000), old=bytes(700_000))
    assert (found.changed.keys(), found.removed, found.left_out) == ({"log", "new", "old/part"}, ("old",), ())


def test_files_whose_names_are_alike_without_secrets_are_named(root: Path) -> None:
    (root / "swordfish99fish").mkdir()
    for name in (
        "hunter2hunter2.txt",
        "swordfish99fish.txt",
        "hunter2hunter2",
        "swordfish99fish/file",
        "fine",
    ):
        (root / name).write_text("x")
    redact = SecretFilter({"A": "hunter2hunter2", "B": "swordfish99fish"})

    async def work() -> Collected:
        with Local(root, redact=redact) as sandbox:
            return await collected(cast("Fresh", sandbox), {})

    found = asyncio.run(work())
    assert found.changed == {"fine": b"x", "[REDACTED].txt": b"x", "[REDACTED]": b"x"}
    assert set(found.redacted) == {"[REDACTED].txt", "[REDACTED]"}
    assert left_out(found) == {
        "[REDACTED].txt": "another file has the same name without secrets",
        "[REDACTED]/file": "its folder has the name of a file without secrets",
    }


def test_files_whose_secrets_were_replaced_are_named(root: Path) -> None:
    redact = SecretFilter({"A": "hunter2hunter2"})
    for name in ("same", "again", "new"):
        (root / name).write_text("hunter2hunter2")
    (root / "fine").write_text("x")

    async def work() -> Collected:
        with Local(root, redact=redact) as sandbox:
            before = {"same": b"hunter2hunter2", "again": b"[REDACTED]"}
            return await collected(cast("Fresh", sandbox), before)

    found = asyncio.run(work())
    assert found.changed == {"fine": b"x", "new": b"[REDACTED]", "same": b"[REDACTED]"}
    assert sorted(found.redacted) == ["again", "new", "same"]


def test_files_that_were_not_read_in_time_are_named(
    root: Path, collect: Callable[..., Collected], monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "file").write_text("x")
    monkeypatch.setattr(changed_files, "_READ_SECONDS", -1)
    found = collect(file=b"y", gone=b"z")
    assert found == Collected(
        {}, ("gone",), (("file", "Cannot open: The time was used up before it was read"),), ("file",)
    )
