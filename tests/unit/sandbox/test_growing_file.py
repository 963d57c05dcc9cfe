"""A file that grows while it is read is read up to the limit only. One that shrinks is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from libs.sandbox.guest.files import file_worker as files
from libs.sandbox.guest.files import text_files as text
from libs.sandbox.guest.files.disk import InUse
from libs.sandbox.guest.workers.frame_pipes import Link
from libs.sandbox.wire.frames import CHUNK


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


def test_download_of_a_growing_file_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "grows"
    path.write_bytes(bytes(CHUNK))
    link = Growing(path)
    monkeypatch.setattr(files, "MOST_CONTENT", 4 * CHUNK)
    answer = files.FileWorker(link)._read(1, {"path": str(path)})
    assert answer["error"] == "too_large"
    assert link.pieces == 5


def test_download_of_a_file_that_shrinks_is_refused(tmp_path: Path) -> None:
    """Its time is still the old one: ext4 sets the size first, and the time when all blocks are free."""
    path = tmp_path / "shrinks"
    path.write_bytes(bytes(3 * CHUNK))
    before = path.stat()

    class Shrinking(Link):
        def send(self, data: bytes) -> None:
            os.truncate(path, 1)
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    with pytest.raises(InUse, match="changed the file while it was read"):
        files.FileWorker(Shrinking(-1, -1))._read(1, {"path": str(path)})


def test_download_of_a_file_that_is_written_again_and_longer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "again"

    class WrittenAgain(Link):
        def send(self, data: bytes) -> None:
            path.write_bytes(b"b" * 4 * CHUNK)

    path.write_bytes(b"a" * 3 * CHUNK)
    with pytest.raises(InUse, match="changed the file while it was read"):
        files.FileWorker(WrittenAgain(-1, -1))._read(1, {"path": str(path)})


def test_download_of_a_log_that_grows_is_its_content_of_a_moment(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a" * 3 * CHUNK)
    link = Growing(path)
    link.send = lambda data: Growing.send(link, data) if link.pieces < 5 else None  # type: ignore[method-assign]
    assert files.FileWorker(link)._read(1, {"path": str(path)}) == {"size": 8 * CHUNK}


def test_edit_refuses_a_large_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large"
    path.write_bytes(b"x" * 101)
    monkeypatch.setattr(text, "_MOST_EDITED", 100)
    assert text.edit(str(path), "x", "y", replace_all=True)["error"] == "too_large"
    path.write_bytes(b"x" * 100)
    assert text.edit(str(path), "x", "y", replace_all=True) == {"count": 100}
