"""Paths of run-lite: no path and no link leads out of the folder."""

from __future__ import annotations

import ctypes
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.lite.lite_tools import call_tool
from libs.lite.sandbox_path import LiteError, resolve_sandbox_path

SECRET = "outside, never to be read"
NAMES = st.sampled_from(
    ["a", "b", ".", "..", "", "link", "file.txt", "...", ". .", "~", "\0", "é", "x" * 300]
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder, with links that lead out of it, beside files that must not change."""
    root = tmp_path / "sandbox-lite"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "file.txt").write_text("inside")
    for name in ("outside", "sandbox-lite-evil"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file.txt").write_text(SECRET)
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "a" / "link").symlink_to("../../outside")
    (root / "link.txt").symlink_to(tmp_path / "outside" / "file.txt")
    (root / "gone").symlink_to("nothing")
    return root


def outside(root: Path) -> dict[str, str]:
    """The files beside the folder."""
    files = (path for path in root.parent.rglob("*") if path.is_file() and root not in path.parents)
    return {str(path): path.read_text() for path in files}


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("", "1 to 1,000 characters"),
        ("/etc/passwd", "is absolute"),
        ("../sandbox-lite-evil/file.txt", "holds '..'"),
        ("a/../../outside/file.txt", "holds '..'"),
        ("a\0/../x", "holds '..'|no name can have"),
        ("\udc80", "no name can have"),
        ("link/file.txt", "passes through a link"),
        ("a/link/file.txt", "passes through a link"),
        ("link.txt", "is a link"),
        ("gone", "is a link"),
    ],
)
def test_path_out_of_the_folder_is_refused(root: Path, path: str, why: str) -> None:
    before = outside(root)
    for name, more in (("read_file", {}), ("write_file", {"content": "x"})):
        with pytest.raises(LiteError, match=why):
            call_tool(root, name, {"filePath": path, **more})
    assert outside(root) == before
    assert not (root / "nothing").exists()


def test_root_is_neither_made_for_a_wrong_path_nor_a_link(tmp_path: Path, root: Path) -> None:
    (tmp_path / "as-link").symlink_to(root)
    for folder, path in (("never made", "../x"), ("as-link", "a/file.txt")):
        with pytest.raises(LiteError):
            call_tool(tmp_path / folder, "read_file", {"filePath": path})
    assert not (tmp_path / "never made").exists()


@settings(max_examples=50)
@given(parts=st.lists(NAMES, max_size=6), begin=st.sampled_from(["", "/", "./"]), content=st.text(max_size=5))
def test_random_paths_stay_inside(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str], begin: str, content: str
) -> None:
    tmp_path = tmp_path_factory.mktemp("paths")
    root = tmp_path / "sandbox-lite"
    (root / "a").mkdir(parents=True)
    (tmp_path / "file.txt").write_text(SECRET)
    (root / "link").symlink_to(tmp_path)
    (root / "a" / "link").symlink_to("..")
    path = begin + "/".join(parts)
    for name, args in (
        ("list_files", {}),
        ("read_file", {"filePath": path}),
        ("write_file", {"filePath": path, "content": content}),
    ):
        try:
            result = call_tool(root, name, args)
        except LiteError:
            continue
        assert SECRET not in result
        assert "sandbox-lite" not in result
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"file.txt", "sandbox-lite"}
    assert (tmp_path / "file.txt").read_text() == SECRET


def test_file_in_the_place_of_a_link_has_the_usual_mode(root: Path) -> None:
    with resolve_sandbox_path(root, "link.txt") as place:
        place.replace(b"x")
    assert stat.S_IMODE((root / "link.txt").lstat().st_mode) == 0o644


def exchange(first: Path, second: Path) -> None:
    """Swap two names in one step with renameat2(2)."""
    libc = ctypes.CDLL(None, use_errno=True)
    here = -100
    if libc.renameat2(here, os.fsencode(first), here, os.fsencode(second), 2):
        raise OSError(ctypes.get_errno(), "renameat2")


@contextmanager
def swapped_all_the_time(swap: Callable[[], None]) -> Iterator[list[int]]:
    """Call `swap` in a thread and give the count. Threads switch every 10 µs, so the race has many rounds."""
    stop, count = threading.Event(), [0]

    def work() -> None:
        while not stop.is_set():
            swap()
            count[0] += 1

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    swapping = threading.Thread(target=work)
    swapping.start()
    try:
        yield count
    finally:
        stop.set()
        swapping.join()
        sys.setswitchinterval(before)


@pytest.mark.parametrize(
    ("depth", "rounds"),
    [(3, 300), *(pytest.param(depth, 3_000, marks=pytest.mark.thorough) for depth in (1, 3))],
)
def test_swapped_folder_and_link_stay_inside(root: Path, depth: int, rounds: int) -> None:
    """A folder and a link out of the root change places while every tool is called."""
    parent = root.joinpath(*["d"] * (depth - 1))
    real, link = parent / "real", parent / "swapped"
    real.mkdir(parents=True)
    (real / "file.txt").write_text("inside")
    link.symlink_to(root.parent / "outside")
    path = link.relative_to(root).as_posix()
    read, refused = 0, 0
    with swapped_all_the_time(lambda: exchange(real, link)) as swaps:
        for number in range(rounds):
            for name, args in (
                ("read_file", {"filePath": f"{path}/file.txt"}),
                ("list_files", {}),
                ("write_file", {"filePath": f"{path}/new.txt", "content": str(number)}),
                ("write_file", {"filePath": f"{path}/made/new.txt", "content": str(number)}),
            ):
                try:
                    result = call_tool(root, name, args)
                except LiteError:
                    refused += 1
                    continue
                assert SECRET not in result
                assert "outside" not in result
                read += 1
    assert sorted(path.name for path in (root.parent / "outside").iterdir()) == ["file.txt"]
    assert (root.parent / "outside" / "file.txt").read_text() == SECRET
    assert swaps[0] > 100 and read > 100 and refused > 100, "the race must have been one"


@pytest.mark.parametrize("rounds", [300, pytest.param(5_000, marks=pytest.mark.thorough)])
def test_swapped_file_and_link_stay_inside(root: Path, rounds: int) -> None:
    """A link as the last part of the path is replaced or refused, and never followed."""
    target = root / "note.txt"
    link = root / "other.txt"
    target.write_text("first")
    link.symlink_to(root.parent / "outside" / "file.txt")

    def swap() -> None:
        if not link.is_symlink() and not target.is_symlink():
            link.unlink(missing_ok=True)
            link.symlink_to(root.parent / "outside" / "file.txt")
        exchange(target, link)

    with swapped_all_the_time(swap):
        for _ in range(rounds):
            for name, more in (("write_file", {"content": "ours"}), ("read_file", {})):
                with suppress(LiteError):
                    assert SECRET not in call_tool(root, name, {"filePath": "note.txt", **more})
    assert (root.parent / "outside" / "file.txt").read_text() == SECRET
