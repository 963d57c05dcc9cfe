"""Pages of files: what deepagents' `read_file` shows is what the file holds, or is marked."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from deepagents.backends.protocol import ReadResult

from libs.backends.docker import deepagents_results as answers
from libs.sandbox.guest.files import text_files
from libs.sandbox.guest.files.text_files import read_page

NOTE = "\n\n[Bytes that are not UTF-8 are shown as \ufffd: read them with a command that knows the encoding.]"
LONG = b"a" * 9_000 + b"\n"
"""A line that is longer than what decides whether a file is text."""


def read(path: Path, content: bytes, offset: int = 0, limit: int = 2_000) -> ReadResult:
    path.write_bytes(content)
    page = read_page(**answers.page_request(str(path), offset, limit))
    return answers.read(str(path), (page, b""))


@pytest.mark.parametrize("name", ["text.txt", "picture.png"])
def test_empty_file_has_no_lines(tmp_path: Path, name: str) -> None:
    answer = read(tmp_path / name, b"", offset=3)
    assert answer.error is None
    assert answer.file_data == {"content": "", "encoding": "utf-8"}
    assert answer.start_line is None


@pytest.mark.parametrize(
    ("content", "offset", "shown"),
    [
        (LONG + b"caf\xe9", 1, "caf\ufffd" + NOTE),
        (LONG + b"caf\xe9\nb", 2, "b"),
        (LONG + "caf\ufffd".encode(), 1, "caf\ufffd"),
        (LONG + "café\r\nb".encode(), 1, "café\nb"),
    ],
)
def test_replaced_bytes_of_a_page_are_told(tmp_path: Path, content: bytes, offset: int, shown: str) -> None:
    answer = read(tmp_path / "file.csv", content, offset)
    assert answer.file_data is not None
    assert answer.file_data["content"] == shown


def test_rest_of_a_long_line_can_be_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the offset or by the command that the page names."""
    monkeypatch.setattr(text_files, "_MOST_PAGE", 1_000)
    path = tmp_path / "a 'name.json"
    line = "".join(f"{number}ü" for number in range(400))
    first = read(path, f"a\r\rb\r\n{line}\r\nend\n".encode(), 0, 10)
    assert first.file_data is not None
    assert (first.end_line, first.total_lines, first.next_offset) == (3, 5, 3)
    assert first.file_data["content"].endswith(
        "\n\n[The page is full, and the last line is cut here: continue with offset 3.]"
    )
    second = read(path, path.read_bytes(), 3, 10)
    assert second.file_data is not None
    assert (second.start_line, second.end_line, second.next_offset) == (4, 4, 4)
    start, note = second.file_data["content"].split("\n\n[")
    assert len(start.encode()) in (999, 1_000)
    command = re.fullmatch(r".*No offset shows the rest of the line. A command does: (tail .*)]", note)
    assert command
    rest = subprocess.run(["bash", "-c", command[1]], capture_output=True, check=True).stdout.decode()
    assert start + rest == f"{line}\r\nend\n"


def test_note_about_the_rest_of_a_line_is_not_cut_by_deepagents(tmp_path: Path) -> None:
    """deepagents cuts results of over 80,000 characters, and says how long the line is in the page."""
    path = tmp_path / "file"
    line = "".join(f"{number}ü" for number in range(100_000))
    page = read(path, f"{line}\nend\n".encode(), 0, 10)
    assert page.file_data is not None
    start, note = page.file_data["content"].split("\n\n[")
    assert len(page.file_data["content"]) < 80_000
    command = re.search(r"A command does: (tail .*)]$", note)
    assert command
    rest = subprocess.run(["bash", "-c", command[1]], capture_output=True, check=True).stdout
    assert line.encode().startswith(start.encode() + rest)
    second = read(path, f"a\n{line}\n".encode(), 0, 10)
    assert second.file_data is not None
    assert len(second.file_data["content"]) > 400_000, "the page goes on with the next offset"


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
@pytest.mark.parametrize("head", [b"", b"a\n"])
@pytest.mark.parametrize("more", [b"", b"z\n", b"\n"])
def test_page_that_is_just_full_is_not_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head: bytes, end: bytes, more: bytes
) -> None:
    monkeypatch.setattr(text_files, "_MOST_PAGE", 1_000)
    line = b"y" * (1_000 - len(head))
    page = read_page(str(_written(tmp_path, head + line + end + (more if end else b""))), 0, 10, text=True)
    lines = 2 if head else 1
    next_line = lines if end and more else None
    assert page["content"].encode() == head + line
    assert (page["cut"], page["end"], page["next"]) == (False, lines, next_line)
    longer = read_page(str(_written(tmp_path, head + line + b"y" + end)), 0, 10, text=True)
    assert longer["cut"] is True


def _written(folder: Path, content: bytes) -> Path:
    path = folder / "file"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("content", [b"\n", b"\r\n\r\n", b" \n\t\n"])
def test_file_of_blank_lines_is_not_called_empty(tmp_path: Path, content: bytes) -> None:
    """deepagents calls a blank page empty if its total says that the page is the whole file."""
    answer = read(tmp_path / "file", content)
    assert answer.file_data is not None
    assert answer.file_data["content"].strip() == ""
    assert (answer.start_line, answer.end_line) == (1, len(content.splitlines()))
    assert answer.total_lines is None


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"y" * 512_000, 1),
        (b"y" * 1_024_000, 1),
        (b"a\n" + b"y" * 2_000_000 + b"\r\n", 2),
        (b"a\r\rb\n\rc", 5),
        (b"x" * ((1 << 20) - 1) + b"\r\n" + b"y" * (1 << 20) + b"\rz", 3),
    ],
)
def test_lines_are_counted_as_they_are_shown(tmp_path: Path, content: bytes, lines: int) -> None:
    path = tmp_path / "file"
    assert read(path, content, lines - 1).end_line == lines
    for offset in (lines, lines + 5):
        told = read_page(str(path), offset, 10, text=True)["detail"]
        assert told == f"line offset {offset} exceeds file length ({lines} lines)"
    first = read(path, content, 0, 1)
    assert (first.total_lines, first.next_offset) == (lines, 1 if lines > 1 else None)
