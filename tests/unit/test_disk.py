"""A file appears whole or not at all, however its writer ends, and whatever the file system can do."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from libs.sandbox.disk import new_file, write_all

WRITER = """
import os, signal, sys
from libs.sandbox import disk

def ended(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

path, call = sys.argv[1:]
with disk.new_file(path, replace=True) as file:
    disk.write_all(file, b"new")
    setattr(os, call, ended)
"""
"""Replaces a file, and is killed as it comes to a call."""


@pytest.fixture(params=["without a name", "with a name"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How the file system lets a file be made that is not there yet."""
    real = os.open

    def without(path: str, flags: int, *args: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return real(path, flags, *args)

    if request.param == "with a name":
        monkeypatch.setattr(os, "open", without)
    return str(request.param)


def write(path: Path, content: bytes, *, replace: bool) -> None:
    with new_file(str(path), replace=replace) as file:
        write_all(file, content)


def held(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def killed_at(call: str, path: Path) -> int:
    program = [sys.executable, "-c", WRITER, str(path), call]
    return subprocess.run(program, cwd=Path(__file__).parents[2], check=False).returncode


class TestKilled:
    @pytest.mark.parametrize("call", ["fchmod", "link"])
    def test_until_the_file_has_a_name_nothing_is_left(self, tmp_path: Path, call: str) -> None:
        (tmp_path / "file").write_bytes(b"old")
        assert killed_at(call, tmp_path / "file") == -signal.SIGKILL
        assert killed_at(call, tmp_path / "another") == -signal.SIGKILL
        assert held(tmp_path) == {"file": b"old"}

    def test_between_the_calls_that_replace_a_file_both_are_there_whole(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"old")
        assert killed_at("replace", tmp_path / "file") == -signal.SIGKILL
        left = held(tmp_path)
        assert left.pop("file") == b"old"
        assert list(left.values()) == [b"new"]
        assert all(name.startswith(".") and name.endswith(".part") for name in left)

    def test_one_that_is_new_needs_one_call_alone(self, tmp_path: Path) -> None:
        assert killed_at("replace", tmp_path / "file") == 0
        assert held(tmp_path) == {"file": b"new"}


@pytest.mark.usefixtures("way")
class TestWhole:
    def test_new_and_replaced(self, tmp_path: Path) -> None:
        write(tmp_path / "folder" / "file", b"1", replace=False)
        (tmp_path / "folder" / "file").chmod(0o640)
        write(tmp_path / "folder" / "file", b"2", replace=True)
        assert held(tmp_path / "folder") == {"file": b"2"}
        assert (tmp_path / "folder" / "file").stat().st_mode & 0o777 == 0o640

    def test_one_that_has_come_meanwhile(self, tmp_path: Path) -> None:
        with new_file(str(tmp_path / "file"), replace=True) as file:
            write_all(file, b"ours")
            (tmp_path / "file").write_bytes(b"another")
        with (
            pytest.raises(FileExistsError),
            new_file(str(tmp_path / "second"), replace=False) as file,
        ):
            (tmp_path / "second").write_bytes(b"another")
        assert held(tmp_path) == {"file": b"ours", "second": b"another"}

    def test_one_that_has_gone_meanwhile(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"old")
        with new_file(str(tmp_path / "file"), replace=True) as file:
            write_all(file, b"new")
            (tmp_path / "file").unlink()
        assert held(tmp_path) == {"file": b"new"}

    @pytest.mark.parametrize("replace", [True, False])
    def test_one_that_was_given_up(self, tmp_path: Path, replace: bool) -> None:
        (tmp_path / "file").write_bytes(b"old")
        path = tmp_path / ("file" if replace else "another")
        with pytest.raises(KeyboardInterrupt), new_file(str(path), replace=replace) as file:
            write_all(file, b"half")
            raise KeyboardInterrupt
        assert held(tmp_path) == {"file": b"old"}

    def test_what_was_replaced_is_handed_out_open(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"old")
        replaced: list[int] = []
        with new_file(str(tmp_path / "file"), replace=True, replaced=replaced) as file:
            write_all(file, b"new")
        assert [os.read(each, 9) for each in replaced] == [b"old"]
        os.close(replaced[0])
