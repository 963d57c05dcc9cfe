"""`skills.file`: results, refusals and unchanged files."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def file(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("skills.file")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("a.py", "deep/b.py", "deep/er/c.py", "deep/er/d.txt", ".git/e.py", ".env"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"one\ndef {path.stem}(): pass\n")
    (tmp_path / "deep" / "loop").symlink_to(tmp_path)
    (tmp_path / "gone").symlink_to("nowhere")
    os.mkfifo(tmp_path / "deep" / "fifo.py")
    return tmp_path


def names(root: Path, found: list[str]) -> list[str]:
    return [Path(path).relative_to(root).as_posix() for path in found]


def test_written_text_is_read_back(file: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = file.write(str(tmp_path / "new" / "a.txt"), "ä\r\n\x0c€")
    assert path == str(tmp_path / "new" / "a.txt")
    assert Path(path).read_bytes() == "ä\r\n\x0c€".encode()
    assert file.read(path) == "ä\r\n\x0c€"
    file.write(path, "")
    assert file.read(path) == ""
    monkeypatch.chdir(tmp_path)
    assert file.write("x.txt", "hello") == str(tmp_path / "x.txt")
    assert file.ls(".") == ["new/", "x.txt"]


@pytest.mark.parametrize(
    ("offset", "limit", "expected"), [(0, 1, "1\n"), (1, None, "2\x0c2\r\n\n4"), (3, 5, "4"), (9, 9, "")]
)
def test_read_counts_lines_like_other_programs(
    file: Any, tmp_path: Path, offset: int, limit: int | None, expected: str
) -> None:
    path = file.write(str(tmp_path / "a"), "1\n2\x0c2\r\n\n4")
    assert file.read(path, offset, limit) == expected
    assert [match.line for match in file.grep("^4$", path)] == [4]


def test_errors_of_read_and_write(file: Any, tree: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no such file: .*nope; .* has: \.env, \.git/, a\.py, deep/"):
        file.read(str(tree / "nope"))
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        file.read(str(tree / "no" / "nope"))
    with pytest.raises(ValueError, match="not a plain file"):
        file.read(str(tree / "deep" / "fifo.py"))
    with pytest.raises(ValueError, match="0 or more"):
        file.read(str(tree / "a.py"), limit=-1)
    for name in ("deep", "deep/fifo.py"):
        with pytest.raises(ValueError, match="not a plain file"):
            file.write(str(tree / name), "x")
    (tree / "latin").write_bytes(b"caf\xe9")
    with pytest.raises(ValueError, match="not text in UTF-8: byte 3 is 0xe9"):
        file.read(str(tree / "latin"))


@pytest.mark.parametrize(
    ("old", "message"),
    [("", "old is empty"), ("c", "0 times, not once: read the file"), ("aa", "2 times, not once: add lines")],
)
def test_edit_needs_exactly_one_place(file: Any, tmp_path: Path, old: str, message: str) -> None:
    path = file.write(str(tmp_path / "a"), "aaa b")
    with pytest.raises(ValueError, match=message):
        file.edit(path, old, "new")
    assert file.read(path) == "aaa b"


def test_edit_keeps_line_ends_and_byte_order_mark(file: Any, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"\xef\xbb\xbfa\r\nb\r\nc\r\n")
    file.edit(str(path), "a\nb", "1\n2\n3")
    assert path.read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n3\r\nc\r\n"
    assert file.read(str(path)) == "1\r\n2\r\n3\r\nc\r\n"


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.py", ["a.py"]),
        ("**/*.py", ["a.py", "deep/b.py", "deep/er/c.py"]),
        ("deep/**/*", ["deep/b.py", "deep/er/c.py", "deep/er/d.txt"]),
        ("**/[cd].*", ["deep/er/c.py", "deep/er/d.txt"]),
        (".git/*", [".git/e.py"]),
        ("**/.env", [".env"]),
    ],
)
def test_glob_skips_links_and_hidden_files(file: Any, tree: Path, pattern: str, expected: list[str]) -> None:
    assert names(tree, file.glob(pattern, str(tree))) == expected


@pytest.mark.parametrize("pattern", ["/etc/*", "a/../../*"])
def test_glob_stays_below_its_folder(file: Any, tree: Path, pattern: str) -> None:
    with pytest.raises(ValueError, match="relative to the folder"):
        file.glob(pattern, str(tree / "deep"))


def test_grep_returns_file_line_and_text(file: Any, tree: Path) -> None:
    found = file.grep(r"def \w+", str(tree), glob="**/*.py")
    assert [(*names(tree, [match.path]), match.line, match.text) for match in found] == [
        ("a.py", 2, "def a(): pass"),
        ("deep/b.py", 2, "def b(): pass"),
        ("deep/er/c.py", 2, "def c(): pass"),
    ]
    assert len(file.grep("one", str(tree), limit=2)) == 2
    assert [match.line for match in file.grep("(?i)ONE", str(tree / "a.py"))] == [1]


def test_grep_skips_binary_files_and_cuts_long_lines(file: Any, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"needle\0")
    (tmp_path / "latin").write_bytes(b"caf\xe9 needle")
    (tmp_path / "long").write_text("needle" + "x" * 10_000)
    found = file.grep("needle", str(tmp_path))
    assert [(Path(match.path).name, len(match.text)) for match in found] == [("latin", 11), ("long", 500)]


def test_shell_syntax_in_names_is_text(file: Any, tmp_path: Path) -> None:
    name = "$(touch hacked); `touch hacked` | x"
    path = file.write(str(tmp_path / name), name)
    assert file.ls(str(tmp_path)) == [name]
    assert file.glob(name.replace("|", "[|]"), str(tmp_path)) == [path]
    assert [match.text for match in file.grep(r"\$\(touch", str(tmp_path))] == [name]
