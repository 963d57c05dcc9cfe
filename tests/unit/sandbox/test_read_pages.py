"""Pages of files: what deepagents' `read_file` shows is what the file holds, or is marked."""

from __future__ import annotations

from pathlib import Path

import pytest
from deepagents.backends.protocol import ReadResult

from libs.backends.docker import deepagents_results as answers
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
