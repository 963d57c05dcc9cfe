"""A file appears complete or not at all, however its writer ends, on any file system."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from libs.sandbox.guest.files.disk import draft, new_file, open_folder, write_all

WRITER = """
import os, signal, sys
from libs.sandbox.guest.files import disk

def ended(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

path, call = sys.argv[1:]
with disk.new_file(path, replace=True) as file:
    disk.write_all(file, b"new")
    setattr(os, call, ended)
"""
"""Replaces a file, and is killed when it makes a given call."""


@pytest.fixture(params=["without a name", "with a name"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whether the file system supports files without a name (O_TMPFILE)."""
    real = os.open

    def without(path: str, flags: int, *args: Any, **more: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return real(path, flags, *args, **more)

    if request.param == "with a name":
        monkeypatch.setattr(os, "open", without)
    return str(request.param)


def write(path: Path, content: bytes, *, replace: bool) -> None:
    with new_file(str(path), replace=replace) as file:
        write_all(file, content)


def test_link_to_a_missing_file_made_meanwhile_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with new_file(str(path), replace=True) as file:
        os.write(file, b"new")
        path.symlink_to("missing")
    assert path.read_bytes() == b"new"
    assert not path.is_symlink()


def held(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def killed_at(call: str, path: Path) -> int:
    program = [sys.executable, "-c", WRITER, str(path), call]
    return subprocess.run(program, cwd=Path(__file__).parents[3], check=False).returncode


class TestKilled:
    @pytest.mark.parametrize("call", ["fchmod", "link"])
    def test_killed_writer_leaves_nothing_before_the_file_has_a_name(self, tmp_path: Path, call: str) -> None:
        (tmp_path / "file").write_bytes(b"old")
        assert killed_at(call, tmp_path / "file") == -signal.SIGKILL
        assert killed_at(call, tmp_path / "another") == -signal.SIGKILL
        assert held(tmp_path) == {"file": b"old"}

    def test_writer_killed_while_replacing_leaves_both_files_complete(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"old")
        assert killed_at("replace", tmp_path / "file") == -signal.SIGKILL
        left = held(tmp_path)
        assert left.pop("file") == b"old"
        assert list(left.values()) == [b"new"]
        assert all(name.startswith(".") and name.endswith(".part") for name in left)

    def test_new_file_is_named_in_one_call(self, tmp_path: Path) -> None:
        assert killed_at("replace", tmp_path / "file") == 0
        assert held(tmp_path) == {"file": b"new"}


@pytest.mark.usefixtures("way")
class TestWhole:
    def test_file_that_another_program_creates_meanwhile(self, tmp_path: Path) -> None:
        with new_file(str(tmp_path / "file"), replace=True) as file:
            write_all(file, b"ours")
            (tmp_path / "file").write_bytes(b"another")
        with (
            pytest.raises(FileExistsError),
            new_file(str(tmp_path / "second"), replace=False) as file,
        ):
            (tmp_path / "second").write_bytes(b"another")
        assert held(tmp_path) == {"file": b"ours", "second": b"another"}

    def test_file_that_is_deleted_meanwhile(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"old")
        with new_file(str(tmp_path / "file"), replace=True) as file:
            write_all(file, b"new")
            (tmp_path / "file").unlink()
        assert held(tmp_path) == {"file": b"new"}

    def test_folder_that_is_deleted_meanwhile(self, tmp_path: Path) -> None:
        path = tmp_path / "folder/file"
        path.parent.mkdir()
        with open_folder(str(path)) as folder:
            path.parent.rmdir()
            with pytest.raises(FileNotFoundError), draft(folder, path.name, 0o644, there=False) as file:
                write_all(file, b"new")

    def test_file_that_is_deleted_before_it_is_looked_at(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def gone(path: str, mode: int) -> bool:
            Path(path).unlink()
            return False

        for name in ("at the begin", "at the end"):
            (tmp_path / name).write_bytes(b"old")
        with monkeypatch.context() as deleted:
            deleted.setattr(os, "access", gone)
            write(tmp_path / "at the begin", b"new", replace=True)
        with new_file(str(tmp_path / "at the end"), replace=True) as file:
            write_all(file, b"new")
            monkeypatch.setattr(os, "access", gone)
        assert held(tmp_path) == {"at the begin": b"new", "at the end": b"new"}

    @pytest.mark.parametrize("replace", [True, False])
    def test_interrupted_write_leaves_nothing(self, tmp_path: Path, replace: bool) -> None:
        (tmp_path / "file").write_bytes(b"old")
        path = tmp_path / ("file" if replace else "another")
        with pytest.raises(KeyboardInterrupt), new_file(str(path), replace=replace) as file:
            write_all(file, b"half")
            raise KeyboardInterrupt
        assert held(tmp_path) == {"file": b"old"}
