"""Changes of files by the file worker: what they keep, and how they say why they fail."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from libs.sandbox.guest.files import deletion
from libs.sandbox.guest.files.deletion import delete
from libs.sandbox.guest.files.disk import refuse_existing
from libs.sandbox.guest.files.text_files import edit


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\n", "a", "a\nx", b"a\r\nx\r\nb\r\n"),
        (b"a\r\nb\r\n", "\nb", "", b"a\r\n"),
        (b"a\r\nb\r\n", "\r\nb\r\n", "\n", b"a\n"),
        (b"a\r\nb\n", "b", "b\nx", b"a\r\nb\nx\n"),
        (b"a\nb\n", "a", "a\r\nx", b"a\r\nx\nb\n"),
        (b"a", "a", "a\nx", b"a\nx"),
    ],
)
def test_edit_keeps_the_line_ends_of_the_file(
    tmp_path: Path, before: bytes, old: str, new: str, after: bytes
) -> None:
    path = tmp_path / "file"
    path.write_bytes(before)
    assert edit(str(path), old, new, replace_all=False) == {"count": 1}
    assert path.read_bytes() == after


def test_existing_name_is_refused_with_what_it_is(tmp_path: Path) -> None:
    refuse_existing(str(tmp_path / "free"))
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "fifo")
    for name, why in (
        ("file", "File exists"),
        ("link", "File exists"),
        (".", "Is a directory"),
        ("loop", "a link with this name leads to no file"),
        ("dangling", "a link with this name leads to no file"),
        ("fifo", "not a regular file"),
    ):
        with pytest.raises((OSError, ValueError), match=why):
            refuse_existing(str(tmp_path / name))


def test_failed_deletion_says_that_a_part_may_be_gone() -> None:
    told = delete("/proc/self/ns", [])
    assert told["detail"].startswith("not everything was deleted: rm: cannot remove '/proc/")


def put_rm(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    """Put another `rm` first in PATH. Return its folder."""
    program = folder / "bin" / "rm"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return program.parent


@pytest.mark.parametrize(
    ("kills", "why"),
    [
        ([1, 1], "a program ended the deletion: delete it again for the rest"),
        ([1, 2], "the sandbox's memory is used up: end programs that use it, then delete the rest"),
    ],
)
def test_deletion_that_was_killed_says_by_what(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kills: list[int], why: str
) -> None:
    folder = put_rm(tmp_path, monkeypatch, "kill -9 $$")
    monkeypatch.setattr(deletion, "memory_kills", lambda: kills.pop(0))
    told = delete(str(folder), [])
    assert told == {"error": "failed", "detail": f"not everything was deleted: {why}"}


def test_deletion_that_takes_too_long_says_that_a_part_may_be_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = put_rm(tmp_path, monkeypatch, "exec sleep 60")
    monkeypatch.setattr(deletion, "_DELETE_SECONDS", 0.1)
    told = delete(str(folder), [])
    detail = "not everything was deleted within 0.1 s: delete it again for the rest"
    assert told == {"error": "timeout", "detail": detail}


def test_deletion_without_a_process_for_it_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(subprocess, "run", refuse)
    told = delete(str(tmp_path), [])
    detail = "nothing was deleted: the sandbox's processes are used up: end programs, then delete it"
    assert told == {"error": "failed", "detail": detail}
