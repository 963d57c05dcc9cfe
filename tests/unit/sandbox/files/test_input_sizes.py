"""Input of every size arrives: around a frame, around what is sent at once, and around a window."""

from __future__ import annotations

from pathlib import Path

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
