"""Input of every size arrives: around a frame, around what is sent at once, and around a window."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from libs.sandbox import FileFailed
from libs.sandbox.host.local_sandbox import LocalSandbox
from libs.sandbox.wire.frames import CHUNK, EARLY, PIPE, WINDOW

_SIZES = sorted(
    size + more
    for size in {CHUNK, EARLY, PIPE, 2 * CHUNK, EARLY + WINDOW, PIPE + WINDOW}
    for more in range(-2, 3)
)


def test_file_of_every_size_is_written(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with LocalSandbox(tmp_path) as sandbox:
        for size in _SIZES:
            content = bytes([size % 251]) * size
            sandbox.write_file(str(path), content)
            assert path.read_bytes() == content, size


def test_file_over_the_limit_is_refused_with_the_limit(tmp_path: Path) -> None:
    told = "File too large: a file has at most 1,000,000 bytes here"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with LocalSandbox(tmp_path) as sandbox:
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, before[1]))
            sandbox.start()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sandbox.write_file("file", b"x" * 1_000_000)
        with pytest.raises(OSError, match=told):
            sandbox.write_file("file", b"y" * 1_000_001)
        with pytest.raises(FileFailed, match=told):
            sandbox.file("edit", path="file", old="x", new="xx", replace_all=True)
        assert sandbox.read_file("file") == b"x" * 1_000_000
