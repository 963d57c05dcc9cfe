"""The start inside the container: loaded modules, and failures before the first command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from libs.sandbox.image_contents import write_guest

WHILE_A_SANDBOX_STARTS = {
    *("__future__", "_collections_abc", "_ctypes", "_struct", "errno", "fcntl", "genericpath", "libs"),
    *("os", "os.path", "posixpath", "select", "stat", "_stat", "struct"),
    *("libs.sandbox", "libs.sandbox.guest", "libs.sandbox.guest.workers", "libs.sandbox.wire"),
    *(f"libs.sandbox.wire.{name}" for name in ("frames", "messages")),
    *(f"libs.sandbox.guest.{name}" for name in ("boot", "guest_stdio", "seccomp", "supervisor", "worker")),
    "libs.sandbox.guest.worker_pool",
    *(
        f"libs.sandbox.guest.workers.{name}"
        for name in ("capture", "children", "command_worker", "frame_pipes")
    ),
    *(
        f"libs.sandbox.guest.workers.{name}"
        for name in (
            "output_limit",
            "kill_process_trees",
            "memory_kills",
            "process_worker",
            "shells",
            "skill_commands",
            "spill",
        )
    ),
}
"""Modules of a start. Importing `signal`, `ctypes`, `enum` or `typing` takes longer than their use."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_guest(tmp_path)
    return tmp_path


def inside(folder: Path, program: str, **environment: str) -> str:
    """Run a program that can import the guest's modules. Return its output."""
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.append({str(folder)!r})\n{program}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        text=True,
        timeout=30,
        env={"PATH": os.defpath, **environment},
    ).stdout


def test_start_loads_only_the_modules_of_the_first_command(folder: Path) -> None:
    program = """
before = set(sys.modules)
import libs.sandbox.guest.boot, libs.sandbox.guest.supervisor
import libs.sandbox.guest.workers.command_worker
print(*sys.modules.keys() - before)
"""
    assert set(inside(folder, program).split()) == WHILE_A_SANDBOX_STARTS


def test_failed_start_of_a_worker_leaves_no_descriptor_open(folder: Path) -> None:
    program = """
import os, resource
from libs.sandbox.guest.worker import fork_worker
held = len(os.listdir("/proc/self/fd"))
for free in range(4):
    resource.setrlimit(resource.RLIMIT_NOFILE, (held - 1 + free, 64))
    print(fork_worker(1, ()), end=" ")
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
print(len(os.listdir("/proc/self/fd")) - held)
"""
    assert inside(folder, program) == "None None None None 0\n"
