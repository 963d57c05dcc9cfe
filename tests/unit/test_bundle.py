"""The container end in one file: what starts from it, and what it loads before the first command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from libs.sandbox.bundle import write_bundle
from libs.sandbox.frames import ANSWER, Ending, Kind, encode
from libs.sandbox.guest import write_guest

READY = encode(0, Kind.END, ANSWER.pack(Ending.DONE, True))
WHILE_A_SANDBOX_STARTS = {
    *("__future__", "_ctypes", "_struct", "errno", "fcntl", "libs", "libs.sandbox", "select", "struct"),
    *(f"libs.sandbox.{name}" for name in ("boot", "capture", "children", "frames", "link", "messages")),
    *(f"libs.sandbox.{name}" for name in ("output", "processes", "runner", "seccomp", "shells", "spill")),
    *(f"libs.sandbox.{name}" for name in ("stdio", "supervisor", "worker", "worker_pool")),
}
"""What it takes. `os`, `signal`, `ctypes`, `enum` and the like cost more than all that is done with them."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_guest(tmp_path)
    return tmp_path


def start(folder: Path) -> subprocess.CompletedProcess[bytes]:
    """Start what is in the folder; its owner is gone at once."""
    return subprocess.run(
        [sys.executable, "-I", "-S", str(folder / "main.pyc")],
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


def inside(folder: Path, program: str, **environment: str) -> str:
    """What a program prints that has the container end's modules to import."""
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.append({str(folder)!r})\n{program}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        text=True,
        timeout=30,
        env={"PATH": os.defpath, **environment},
    ).stdout


def test_nothing_is_loaded_that_the_first_command_does_not_need(folder: Path) -> None:
    program = """
before = set(sys.modules)
import libs.sandbox.boot, libs.sandbox.supervisor
import libs.sandbox.runner
print(*sys.modules.keys() - before)
"""
    assert set(inside(folder, program).split()) == WHILE_A_SANDBOX_STARTS


def test_variables_for_the_first_process_alone_reach_no_program(folder: Path) -> None:
    program = """
from libs.sandbox.boot import _private
print(_private(b"SANDBOX_PROXY", b"0"), _private(b"SANDBOX_TRUST", b"none"))
sys.stdout.flush()
import os, subprocess
print(dict(os.environ), subprocess.run(["env"], capture_output=True, text=True).stdout.split())
"""
    told, left = inside(folder, program, SANDBOX_PROXY="3128").splitlines()
    assert told == "b'3128' b'none'"
    assert f"'PATH={os.defpath}'" in left
    assert "SANDBOX" not in left


def test_a_worker_that_lacks_descriptors_is_not_made_and_nothing_is_left_open(folder: Path) -> None:
    program = """
import os, resource
from libs.sandbox.worker import fork_worker
held = len(os.listdir("/proc/self/fd"))
for free in range(4):
    resource.setrlimit(resource.RLIMIT_NOFILE, (held - 1 + free, 64))
    print(fork_worker(1, ()), end=" ")
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
print(len(os.listdir("/proc/self/fd")) - held)
"""
    assert inside(folder, program) == "None None None None 0\n"


def test_it_runs_files_of_its_own_folder_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    write_bundle(Path())
    path = folder / "libs/sandbox/supervisor.py"
    path.write_text("raise ValueError(__file__)\n")
    write_bundle(Path())
    assert start(folder).stderr.decode().splitlines()[-1] == f"ValueError: {path}"


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
