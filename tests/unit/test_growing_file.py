"""A file that grows while it is read is read up to the limit, no further."""

from __future__ import annotations

from pathlib import Path

import pytest

from libs.sandbox import files, text
from libs.sandbox.frames import CHUNK
from libs.sandbox.link import Link


class Growing(Link):
    """Makes the file longer with every piece that is sent."""

    def __init__(self, path: Path) -> None:
        super().__init__(-1, -1)
        self.path = path
        self.pieces = 0

    def send(self, data: bytes) -> None:
        self.pieces += 1
        assert self.pieces < 100
        with self.path.open("ab") as file:
            file.write(bytes(CHUNK))


def test_a_download_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "grows"
    path.write_bytes(bytes(CHUNK))
    link = Growing(path)
    monkeypatch.setattr(files, "MOST_CONTENT", 4 * CHUNK)
    answer = files.FileWorker(link)._read(1, {"path": str(path)})
    assert answer["error"] == "too_large"
    assert link.pieces == 5


def test_an_edit_refuses_what_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large"
    path.write_bytes(b"x" * 101)
    monkeypatch.setattr(text, "_MOST_EDITED", 100)
    assert text.edit(str(path), "x", "y", replace_all=True, replaced=[])["error"] == "too_large"
    path.write_bytes(b"x" * 100)
    assert text.edit(str(path), "x", "y", replace_all=True, replaced=[]) == {"count": 100}
