"""Paths of run-lite: nothing outside of the folder is touched, whatever a path says or a link does (R6)."""

from __future__ import annotations

import ctypes
import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.lite.errors import LiteError
from libs.lite.sandbox_path import PathRefused, resolve_sandbox_path
from libs.lite.tools import call_tool

SECRET = "outside, never to be read"
NAMES = st.sampled_from(
    ["a", "b", ".", "..", "", "link", "file.txt", "...", ". .", "~", "\0", "é", "x" * 300]
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder, with links that lead out of it, beside things that are to be left alone."""
    root = tmp_path / "sandbox-lite"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "file.txt").write_text("inside")
    for name in ("outside", "sandbox-lite-evil"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file.txt").write_text(SECRET)
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "a" / "link").symlink_to("../../outside")
    (root / "link.txt").symlink_to(tmp_path / "outside" / "file.txt")
    (root / "within").symlink_to("a")
    (root / "gone").symlink_to("nothing")
    return root


def outside(root: Path) -> dict[str, str]:
    """Everything beside the folder."""
    files = (path for path in root.parent.rglob("*") if path.is_file() and root not in path.parents)
    return {str(path): path.read_text() for path in files}


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("", "1 to 1,000 characters"),
        ("x" * 1_001, "1 to 1,000 characters"),
        ("/etc/passwd", "is absolute"),
        ("//etc/passwd", "is absolute"),
        ("..", "holds '..'"),
        ("../sandbox-lite-evil/file.txt", "holds '..'"),
        ("a/../../outside/file.txt", "holds '..'"),
        ("a/../file.txt", "holds '..'"),
        ("a\0/../x", "holds '..'|no name can have"),
        ("a\0b", "no name can have"),
        ("\udc80", "no name can have"),
        ("link/file.txt", "passes through a link"),
        ("a/link/file.txt", "passes through a link"),
        ("within/file.txt", "passes through a link"),
        ("link.txt", "is a link"),
        ("within", "is a link"),
        ("gone", "is a link"),
    ],
)
def test_refused_by_every_tool(root: Path, path: str, why: str) -> None:
    before = outside(root)
    for name, more in (("read_file", {}), ("write_file", {"content": "x"})):
        with pytest.raises(LiteError, match=why):
            call_tool(root, name, {"path": path, **more})
    with pytest.raises(LiteError):
        call_tool(root, "list_files", {"path": path})
    assert outside(root) == before
    assert not (root / "nothing").exists()


def test_what_words_tell_is_refused_before_anything_is_opened(tmp_path: Path) -> None:
    for path in ("..", "/x", "a\0", ""):
        with pytest.raises(PathRefused):
            resolve_sandbox_path(tmp_path / "never made", path)
    assert not (tmp_path / "never made").exists()


def test_the_folder_may_be_no_link_itself(tmp_path: Path, root: Path) -> None:
    (tmp_path / "as-link").symlink_to(root)
    with pytest.raises(LiteError):
        call_tool(tmp_path / "as-link", "read_file", {"path": "a/file.txt"})


@given(parts=st.lists(NAMES, max_size=6), begin=st.sampled_from(["", "/", "./"]), content=st.text(max_size=5))
def test_no_path_leads_out(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str], begin: str, content: str
) -> None:
    tmp_path = tmp_path_factory.mktemp("paths")
    root = tmp_path / "sandbox-lite"
    (root / "a").mkdir(parents=True)
    (tmp_path / "file.txt").write_text(SECRET)
    (root / "link").symlink_to(tmp_path)
    (root / "a" / "link").symlink_to("..")
    path = begin + "/".join(parts)
    for name, more in (("list_files", {}), ("read_file", {}), ("write_file", {"content": content})):
        try:
            result = call_tool(root, name, {"path": path, **more})
        except LiteError:
            continue
        assert SECRET not in result
        assert "sandbox-lite" not in result
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"file.txt", "sandbox-lite"}
    assert (tmp_path / "file.txt").read_text() == SECRET


def exchange(first: Path, second: Path) -> None:
    """Swap two names in one step, renameat2(2): at no time is one of them missing."""
    libc = ctypes.CDLL(None, use_errno=True)
    here = -100
    if libc.renameat2(here, os.fsencode(first), here, os.fsencode(second), 2):
        raise OSError(ctypes.get_errno(), "renameat2")


@pytest.mark.parametrize("depth", [1, 3])
def test_links_that_are_swapped_in_all_the_time_lead_nowhere(root: Path, depth: int) -> None:
    """A folder and a link out of the root change places while every tool is called."""
    parent = root.joinpath(*["d"] * (depth - 1))
    real, link = parent / "real", parent / "swapped"
    real.mkdir(parents=True)
    (real / "file.txt").write_text("inside")
    link.symlink_to(root.parent / "outside")
    path = link.relative_to(root).as_posix()
    stop = threading.Event()
    swaps = 0

    def swap() -> None:
        nonlocal swaps
        while not stop.is_set():
            exchange(real, link)
            swaps += 1

    swapping = threading.Thread(target=swap)
    swapping.start()
    read, refused = 0, 0
    try:
        for number in range(1_500):
            calls = [
                ("read_file", {"path": f"{path}/file.txt"}),
                ("list_files", {"path": path}),
                ("list_files", {"path": "."}),
                ("write_file", {"path": f"{path}/new.txt", "content": str(number)}),
                ("write_file", {"path": f"{path}/made/new.txt", "content": str(number)}),
            ]
            for name, args in calls:
                try:
                    result = call_tool(root, name, args)
                except LiteError:
                    refused += 1
                    continue
                assert SECRET not in result
                assert "outside" not in result
                read += 1
    finally:
        stop.set()
        swapping.join()
    assert sorted(path.name for path in (root.parent / "outside").iterdir()) == ["file.txt"]
    assert (root.parent / "outside" / "file.txt").read_text() == SECRET
    assert swaps > 100 and read > 100 and refused > 100, "the race must have been one"


def test_a_file_that_a_link_takes_the_place_of_is_not_written_through(root: Path) -> None:
    """The last part of the path, too: the link itself is replaced, or refused, and never followed."""
    target = root / "note.txt"
    link = root / "other.txt"
    target.write_text("first")
    link.symlink_to(root.parent / "outside" / "file.txt")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            if not link.is_symlink() and not target.is_symlink():
                link.unlink(missing_ok=True)
                link.symlink_to(root.parent / "outside" / "file.txt")
            exchange(target, link)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for _ in range(3_000):
            for name, more in (("write_file", {"content": "ours"}), ("read_file", {})):
                with suppress(LiteError):
                    assert SECRET not in call_tool(root, name, {"path": "note.txt", **more})
    finally:
        stop.set()
        swapping.join()
    assert (root.parent / "outside" / "file.txt").read_text() == SECRET
