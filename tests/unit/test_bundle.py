"""The container end in one file: what starts from it, and what it loads before the first command."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from libs.sandbox.bundle import write_bundle
from libs.sandbox.frames import ANSWER, Ending, Kind, encode
from libs.sandbox.guest import write_guest

READY = encode(0, Kind.END, ANSWER.pack(Ending.DONE, True))
WHILE_A_SANDBOX_STARTS = {
    *(
        "__future__",
        "_ctypes",
        "_struct",
        "errno",
        "fcntl",
        "libs",
        "libs.sandbox",
        "select",
        "struct",
        "termios",
    ),
    *(
        f"libs.sandbox.{name}"
        for name in ("boot", "capture", "children", "frames", "link", "messages", "output")
    ),
    *(f"libs.sandbox.{name}" for name in ("processes", "runner", "seccomp", "shells", "spill", "stdio")),
    *("libs.sandbox.supervisor", "libs.sandbox.worker"),
}
"""What it takes. `os`, `signal`, `ctypes`, `enum` and the like cost more than all that is done with them."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_guest(tmp_path)
    return tmp_path


def start(folder: Path, *options: str) -> subprocess.CompletedProcess[bytes]:
    """Start what is in the folder; its owner is gone at once."""
    return subprocess.run(
        [sys.executable, "-I", "-S", *options, str(folder / "main.pyc")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=folder,
        env={"PATH": os.defpath, "HOME": str(folder)},
        timeout=30,
        check=False,
    )


def test_it_starts_and_says_so(folder: Path) -> None:
    done = start(folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, READY, b"")


def test_it_starts_without_the_sources(folder: Path) -> None:
    for path in (folder / "libs").rglob("*.py"):
        path.unlink()
    assert start(folder).stdout == READY


def test_nothing_is_loaded_that_the_first_command_does_not_need(folder: Path) -> None:
    done = start(folder, "-X", "importtime")
    loaded = re.findall(r"^import time: +\d+ \| +\d+ \| +(\S+)$", done.stderr.decode(), re.MULTILINE)
    first = loaded.index("libs")
    assert "libs.sandbox.supervisor" in loaded[first:]
    assert set(loaded[first:]) <= WHILE_A_SANDBOX_STARTS


def test_a_traceback_shows_the_line_that_raised(folder: Path) -> None:
    path = folder / "libs/sandbox/supervisor.py"
    path.write_text('raise ValueError("so it is")  # a remark\n')
    write_bundle(folder)
    done = start(folder)
    assert done.returncode != 0
    assert f'File "{path}", line 1' in done.stderr.decode()
    assert 'raise ValueError("so it is")  # a remark' in done.stderr.decode()


def test_what_is_no_python_is_refused(folder: Path) -> None:
    before = (folder / "main.pyc").read_bytes()
    (folder / "libs/sandbox/files.py").write_text("def")
    with pytest.raises(SyntaxError, match="invalid syntax"):
        write_bundle(folder)
    assert (folder / "main.pyc").read_bytes() == before
