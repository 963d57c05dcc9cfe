"""The tools of run-lite: results and errors."""

from __future__ import annotations

import errno
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from libs.lite import LiteError, PathRefused, lite_tools
from libs.lite.lite_tools import MAX_BYTES, MAX_LISTED, call_tool
from libs.lite.sandbox_path import SandboxPath


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "made on demand" / "sandbox-lite"


def test_list_write_read(root: Path) -> None:
    assert call_tool(root, "list_files", {}) == "(empty)"
    assert call_tool(root, "write_file", {"filePath": "notes/é/a.txt", "content": "héllo\n"}) == (
        "Wrote 7 bytes to notes/é/a.txt"
    )
    assert call_tool(root, "read_file", {"filePath": "./notes//é/a.txt"}) == "héllo\n"
    call_tool(root, "write_file", {"filePath": "b.txt", "content": ""})
    assert call_tool(root, "read_file", {"filePath": "b.txt"}) == ""
    assert call_tool(root, "list_files", {}) == "b.txt\nnotes/é/a.txt"
    call_tool(root, "write_file", {"filePath": "b.txt", "content": "again"})
    assert call_tool(root, "read_file", {"filePath": "b.txt"}) == "again"


def test_listing_leaves_out_folders_and_shows_bytes_that_are_no_text(root: Path) -> None:
    (root / "empty" / "inner").mkdir(parents=True)
    assert call_tool(root, "list_files", {}) == "(empty)"
    (root / "empty" / os.fsdecode(b"a\xff")).touch()
    (root / "empty" / "a\\xff").touch()
    (root / "b\nc").touch()
    mark = " [not the exact name: no tool reaches the file by this path]"
    assert call_tool(root, "list_files", {}).split("\n") == [
        f"b\\nc{mark}",
        "empty/a\\xff",
        f"empty/a\\xff{mark}",
    ]


def test_listing_names_folders_that_it_does_not_list(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = root
    for _ in range(40):
        folder /= "d"
    folder.mkdir(parents=True)
    for name in ("gone", "later", "shut"):
        (root / name).mkdir()
    enter = SandboxPath.open_folder

    def refuse(place: SandboxPath) -> int:
        if place.name == "shut":
            raise PermissionError
        if place.name == "later":
            raise OSError(errno.EMFILE, "Too many open files")
        if place.name == "gone":
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        return enter(place)

    monkeypatch.setattr(SandboxPath, "open_folder", refuse)  # root can open every folder
    deep = "d/" * 33 + " [too deep: not listed]"
    assert call_tool(root, "list_files", {}).split("\n") == [
        deep,
        "later/ [cannot be read]",
        "shut/ [cannot be read]",
    ]

    def hide(place: SandboxPath) -> int:
        raise PermissionError(place.name)

    monkeypatch.setattr(SandboxPath, "kind", hide)  # the folder may be listed, but not entered
    assert call_tool(root, "list_files", {}) == "./ [cannot be read]"


def test_listing_marks_what_is_no_file(root: Path) -> None:
    (root / "folder").mkdir(parents=True)
    (root / "to folder").symlink_to("folder")
    (root / "to nothing").symlink_to("nothing")
    os.mkfifo(root / "fifo")
    assert call_tool(root, "list_files", {}).split("\n") == [
        "fifo [not a regular file]",
        "to folder [a link, which is not followed]",
        "to nothing [a link, which is not followed]",
    ]


def test_listing_marks_files_that_cannot_be_read() -> None:
    assert os.geteuid() == 0, "only root can become a user that may not read"
    with TemporaryDirectory() as folder:
        root = Path(folder)
        root.chmod(0o755)
        (root / "open").touch(0o644)
        (root / "shut").touch(0o600)
        os.seteuid(65534)
        try:
            listed = call_tool(root, "list_files", {})
            with pytest.raises(LiteError, match="Permission denied"):
                call_tool(root, "read_file", {"filePath": "shut"})
        finally:
            os.seteuid(0)
    assert listed == "open\nshut [cannot be read]"


@pytest.mark.parametrize("path", ["notes/", "a/notes/."])
def test_path_of_a_folder_makes_no_file(root: Path, path: str) -> None:
    with pytest.raises(PathRefused, match="names a folder"):
        call_tool(root, "write_file", {"filePath": path, "content": "x"})
    assert call_tool(root, "list_files", {}) == "(empty)"


def test_name_of_an_unfinished_file_is_refused(root: Path) -> None:
    args = {"filePath": "a/.unfinished-0123456789abcdef", "content": "x"}
    with pytest.raises(PathRefused, match="only unfinished files have"):
        call_tool(root, "write_file", args)


@pytest.mark.parametrize(
    ("name", "args", "error"),
    [
        ("run_shell", {}, "Unknown tool 'run_shell'. Allowed: list_files, read_file, write_file"),
        ("read_file", {"filePath": 3}, "read_file: the argument 'filePath' must be a string"),
        ("list_files", {"path": "."}, "there is no argument 'path'. Arguments of list_files: none"),
        (
            "write_file",
            {"path": "a", "content": None},
            "write_file: the argument 'filePath' is missing; the argument 'content' must be a string; "
            "there is no argument 'path'. Arguments of write_file: filePath, content",
        ),
        ("read_file", {"filePath": "a.txt"}, "read_file: 'a.txt' is not there"),
        ("read_file", {"filePath": "folder"}, "read_file: 'folder' is a folder"),
        ("read_file", {"filePath": "file/x"}, "read_file: 'file/x' failed: Not a directory"),
        ("write_file", {"filePath": "folder", "content": ""}, "write_file: 'folder' is a folder"),
        ("write_file", {"filePath": ".", "content": ""}, "write_file: '.' is a folder"),
        ("write_file", {"filePath": "a", "content": "x" * (MAX_BYTES + 1)}, "1,000,001 bytes"),
        ("write_file", {"filePath": "a", "content": "\ud800"}, "holds half of a surrogate pair"),
        ("read_file", {"filePath": "binary"}, "read_file: 'binary' is not text in UTF-8"),
        ("read_file", {"filePath": "large"}, "read_file: 'large' has more than 1,000,000 bytes"),
        ("read_file", {"filePath": "pipe"}, "read_file: 'pipe' is not a regular file"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_error_is_named(root: Path, name: str, args: dict[str, Any], error: str) -> None:
    (root / "folder").mkdir(parents=True)
    (root / "file").write_text("x")
    (root / "binary").write_bytes(b"\xff\xfe")
    (root / "large").write_bytes(b"x" * (MAX_BYTES + 1))
    os.mkfifo(root / "pipe")
    with pytest.raises(LiteError) as caught:
        call_tool(root, name, args)
    assert error in str(caught.value)
    assert str(root) not in str(caught.value)


def test_every_file_that_can_be_written_is_listed(root: Path) -> None:
    for path in (".unfinished-notes", ".hidden", "/".join(["d"] * 32) + "/deep"):
        call_tool(root, "write_file", {"filePath": path, "content": "x"})
        assert path in call_tool(root, "list_files", {}).splitlines()
    call_tool(root, "write_file", {"filePath": "a\nb/c/d", "content": "x"})
    mark = " [not the exact name: no tool reaches the file by this path]"
    assert f"a\\nb/c/d{mark}" in call_tool(root, "list_files", {}).splitlines()
    with pytest.raises(LiteError, match="more than 32 folders"):
        call_tool(root, "write_file", {"filePath": "d/" * 33 + "deeper", "content": "x"})


def test_name_of_a_file_cannot_imitate_another_line(root: Path) -> None:
    named_so = " [a file whose name is the text before]"
    root.mkdir(parents=True)
    (root / "a").symlink_to("b")
    names = ["(empty)", "(3 more)", "a [a link, which is not followed]", f"c{named_so}"]
    for name in names:
        (root / name).write_text("1")
    lines = call_tool(root, "list_files", {}).split("\n")
    assert lines == sorted(["a [a link, which is not followed]", *(name + named_so for name in names)])


def test_file_with_a_secret_in_its_path_is_marked(root: Path) -> None:
    mark = " [not the exact name: no tool reaches the file by this path]"
    for path in ("a.txt", "s3cret-value.txt", "of/s3cret-value/a", "s3cret-value\nb"):
        call_tool(root, "write_file", {"filePath": path, "content": "x"})
    listed = call_tool(root, "list_files", {}, lambda text: text.replace("s3cret-value", "[REDACTED]"))
    assert listed.split("\n") == [
        "a.txt",
        f"of/[REDACTED]/a{mark}",
        f"[REDACTED].txt{mark}",
        f"[REDACTED]\\nb{mark}",
    ]


def test_folder_that_is_a_file_is_named(root: Path) -> None:
    root.parent.mkdir()
    root.touch()
    for name, args in (("list_files", {}), ("write_file", {"filePath": "a", "content": ""})):
        with pytest.raises(LiteError, match="of run-lite cannot be opened: a file or a link has its name"):
            call_tool(root, name, args)


def test_replaced_file_keeps_its_mode(root: Path) -> None:
    root.mkdir(parents=True)
    (root / "run.sh").touch(0o4755)
    call_tool(root, "write_file", {"filePath": "run.sh", "content": "x"})
    assert (root / "run.sh").stat().st_mode & 0o7777 == 0o755


def test_files_in_the_folder_of_another_user(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only root can give a file away. Others may write to a common folder as themselves."""
    root.mkdir(parents=True)
    monkeypatch.setattr(os, "geteuid", lambda: root.stat().st_uid + 1)

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "fchown", refuse)
    assert call_tool(root, "write_file", {"filePath": "a", "content": "x"}) == "Wrote 1 bytes to a"


def test_read_only_file_is_not_replaced(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root.mkdir(parents=True)
    (root / "a").touch(0o444)
    monkeypatch.setattr(os, "access", lambda *_, **__: False)  # root may write to every file
    with pytest.raises(LiteError, match="'a' failed: Permission denied"):
        call_tool(root, "write_file", {"filePath": "a", "content": "x"})


def test_listing_ends_in_time_and_says_so(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "empty").mkdir(parents=True)
    monkeypatch.setattr(lite_tools, "_SECONDS", 0)
    listed = call_tool(root, "list_files", {})
    assert listed == "(there may be more: the listing ended after 0 s)"


def test_path_that_is_too_long_for_the_tools_is_marked(root: Path) -> None:
    folder = root.joinpath(*["d" * 250] * 4)
    folder.mkdir(parents=True)
    (folder / "a").touch()
    assert call_tool(root, "list_files", {}).endswith("d/ [the path is too long for the tools]")


def test_long_listing_is_cut(root: Path) -> None:
    root.mkdir(parents=True)
    for number in range(MAX_LISTED + 7):
        (root / f"{number:05}").touch()
    lines = call_tool(root, "list_files", {}).splitlines()
    assert len(lines) == MAX_LISTED + 1
    assert lines[-1] == "(7 more)"


def test_reader_never_finds_half_a_file(root: Path) -> None:
    texts = ["a" * 200_000, "b" * 100_000]
    call_tool(root, "write_file", {"filePath": "x", "content": texts[0]})
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            for text in texts:
                call_tool(root, "write_file", {"filePath": "x", "content": text})

    with ThreadPoolExecutor(3) as pool:
        for _ in range(3):
            pool.submit(write)
        found = {call_tool(root, "read_file", {"filePath": "x"}) for _ in range(300)}
        stop.set()
    assert found <= set(texts)
    assert [path.name for path in root.iterdir()] == ["x"]


def open_files(folder: Path) -> list[str]:
    """Return the open files below a folder. Other threads of the test process open and close files too."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.append(str(descriptor.readlink()))
    return [path for path in found if path.startswith(str(folder))]


def test_no_descriptor_is_left_open(root: Path) -> None:
    call_tool(root, "write_file", {"filePath": "a/b/c", "content": "x"})
    for args in (
        {"filePath": "a/b/c"},
        {"filePath": "a/b"},
        {"filePath": "no/b"},
        {"filePath": "a/b/c/d"},
        {"filePath": ".."},
    ):
        for name, more in (("read_file", {}), ("write_file", {"content": "y"})):
            with suppress(LiteError):
                call_tool(root, name, {**args, **more})
        call_tool(root, "list_files", {})
    assert open_files(root.parent) == []
