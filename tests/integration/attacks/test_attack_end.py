"""Commands try to escape their time-out: by ptrace, scheduling, another ABI, or by killing others."""

from __future__ import annotations

import platform
import time
from pathlib import Path

import pytest

from libs.backends.docker import DockerExecutionBackend
from tests.support.sandboxes import SLOWER, machine_delay
from tests.support.waiting import eventually

pytestmark = pytest.mark.docker

CALL = """
import ctypes, os, resource, sys
libc = ctypes.CDLL(None, use_errno=True)
x86 = os.uname().machine == "x86_64"
def raw(on_x86, elsewhere, *arguments):
    if libc.syscall(on_x86 if x86 else elsewhere, *map(ctypes.c_long, arguments)) < 0:
        raise OSError(ctypes.get_errno(), "refused")
def child():
    pid = os.fork()
    if pid == 0:
        import time; time.sleep(60)
    return pid
"""
TRACING = [
    "raw(101, 117, 0, 0, 0, 0)",  # PTRACE_TRACEME
    "raw(101, 117, 0x4206, child(), 0, 0x40)",  # PTRACE_SEIZE, PTRACE_O_TRACEEXIT
    "raw(101, 117, 0x4206, os.getppid(), 0, 0)",
    "raw(101, 117, 16, child(), 0, 0)",  # PTRACE_ATTACH
]
AIMED = [
    "os.setpriority(os.PRIO_PROCESS, {pid}, 19)",
    "os.setpriority(os.PRIO_PGRP, {pid}, 19)",
    "os.sched_setscheduler({pid}, os.SCHED_IDLE, os.sched_param(0))",
    "os.sched_setparam({pid}, os.sched_param(0))",
    "os.sched_setaffinity({pid}, {{0}})",
    "resource.prlimit({pid}, resource.RLIMIT_CPU, (600, 600))",
    "raw(251, 30, 1, {pid}, 7 | 2 << 13)",  # ioprio_set
]
OF_ALL = ["os.setpriority(os.PRIO_USER, 0, 19)", "raw(251, 30, 3, os.getuid(), 7 | 2 << 13)"]
BUSY = "for i in $(seq 60); do (while :; do :; done) & done; sleep 60"
KILLER = """
import os, time
def parent(pid):
    return int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
open("/workspace/begunSIGNAL", "w").close()
mine, pid = set(), os.getpid()
while pid > 1:
    mine.add(pid)
    pid = parent(pid)
end = time.monotonic() + 60
while time.monotonic() < end:
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) > 1 and int(name) not in mine:
            try:
                os.kill(int(name), SIGNAL)
            except OSError:
                pass
    time.sleep(0.002)
"""


def called(backend: DockerExecutionBackend, call: str) -> str:
    """Return `done`, or the name of the error that the call raised."""
    program = (
        f"{CALL}\n"
        f"try:\n    {call}\n    print('done')\nexcept OSError as error:\n    print(type(error).__name__)\n"
    )
    assert backend.write("/workspace/try.py", program).error is None
    answer = backend.execute("timeout -s KILL 5 python3 /workspace/try.py; rm /workspace/try.py", timeout=20)
    return answer.output.strip()


def test_ptrace_is_refused(backend: DockerExecutionBackend) -> None:
    """Two processes that trace each other's exits could not be killed, nor could their container."""
    for call in TRACING:
        assert called(backend, call) == "PermissionError", call


def test_scheduling_of_process_one_cannot_be_changed(backend: DockerExecutionBackend) -> None:
    for call in AIMED:
        assert called(backend, call.format(pid=1)) == "PermissionError", call
        own = "os.getpgid(0)" if "PGRP" in call else "os.getpid()"
        assert called(backend, call.format(pid=own)) == "done", call
    for call in OF_ALL:
        assert called(backend, call) == "PermissionError", call


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86-64 has these numbers")
def test_system_calls_of_another_abi_kill_the_program(backend: DockerExecutionBackend) -> None:
    answer = backend.execute(
        "python3 -c 'import ctypes; ctypes.CDLL(None).syscall(0x40000000 + 39)'; echo $?"
    )
    assert answer.output.splitlines()[-1] == str(128 + 31)  # SIGSYS


@pytest.mark.thorough
def test_time_out_works_after_attacks_on_scheduling(backend: DockerExecutionBackend) -> None:
    attempts = "\n".join(
        f"try:\n    {call.format(pid=1)}\nexcept OSError:\n    pass" for call in [*AIMED, *OF_ALL]
    )
    assert backend.write("/workspace/all.py", CALL + attempts).error is None
    assert backend.execute("python3 all.py; echo tried").output == "tried\n"
    delay = machine_delay(backend.sandbox, 2)
    begun = time.monotonic()
    assert backend.execute(BUSY, timeout=2).exit_code == 124
    assert time.monotonic() - begun < 2 + 2 * SLOWER + delay
    assert backend.execute("pgrep -c sleep; echo on").output == "0\non\n"


@pytest.mark.parametrize(
    "signal", [9, pytest.param(19, marks=pytest.mark.thorough)], ids=["SIGKILL", "SIGSTOP"]
)
def test_background_process_that_kills_others_is_killed(
    backend: DockerExecutionBackend, workspace: Path, signal: int
) -> None:
    backend.upload_files([("/workspace/killer.py", KILLER.replace("SIGNAL", str(signal)).encode())])
    first = getattr(backend.sandbox, "container_name", None)
    backend.execute("sleep 0.2; python3 killer.py > /dev/null 2>&1 & true")
    eventually((workspace / f"begun{signal}").exists)
    time.sleep(1.5)
    answers = [backend.execute(f"echo {number}", timeout=5) for number in range(8)]
    right = [answer.output == f"{number}\n" for number, answer in enumerate(answers)]
    assert right.count(False) <= 2
    assert all(right[-4:])
    assert backend.write(f"/workspace/new{signal}.txt", "x").error is None
    assert backend.execute("pgrep -f killer.py").exit_code == 1
    assert getattr(backend.sandbox, "container_name", None) == first
