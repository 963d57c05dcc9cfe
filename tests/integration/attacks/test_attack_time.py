"""Commands that end around their deadline, or that hide from the search for running processes."""

from __future__ import annotations

import platform
import statistics
import struct
import time
from pathlib import Path

import pytest

from libs.backends.docker import DockerExecutionBackend
from tests.support.sandboxes import machine_delay

pytestmark = pytest.mark.docker

# A process whose first thread has ended looks like a zombie, while its other threads run.
HEADLESS = """
import ctypes, os, sys, threading, time
def beat():
    while True:
        with open(sys.argv[1], "a") as file:
            file.write(".")
        time.sleep(0.02)
for _ in range(int(sys.argv[2])):
    if os.fork() == 0:
        os.setsid()
threading.Thread(target=beat).start()
time.sleep(0.1)
ctypes.CDLL(None).syscall(EXIT, 0)  # of this thread alone
""".replace("EXIT", "93" if platform.machine() == "aarch64" else "60")

# Forks and exits in a loop: no process lives longer than about 50 microseconds.
WALKER = bytes.fromhex("b8390000000f0585c07ef5b83c00000031ff0f05")


def elf(code: bytes) -> bytes:
    """Return the smallest ELF program with this machine code; see elf(5)."""
    base, size = 0x400000, 120 + len(code)
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, base + 120, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    return ident + header + struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, size, size, 0x1000) + code


def grows(backend: DockerExecutionBackend, path: str) -> bool:
    sizes = [backend.execute(f"wc -c < {path}").output]
    time.sleep(0.2)  # ten beats
    return [*sizes, backend.execute(f"wc -c < {path}").output] != sizes * 2


@pytest.mark.parametrize(
    ("form", "more"),
    [
        ("exec {}", 0),
        ("({} &); sleep 30", 3),
        pytest.param("{}; sleep 30", 3, marks=pytest.mark.thorough),
        pytest.param("setsid {} & sleep 30", 0, marks=pytest.mark.thorough),
    ],
)
def test_process_without_its_first_thread_is_killed(
    backend: DockerExecutionBackend, form: str, more: int
) -> None:
    backend.upload_files([("/tmp/headless.py", HEADLESS.encode())])
    heart = f"/tmp/heart-{time.monotonic_ns()}"
    answer = backend.execute(form.format(f"python3 /tmp/headless.py {heart} {more}"), timeout=1)
    assert answer.exit_code == 124
    assert not grows(backend, heart)


def test_headless_process_is_killed_with_its_worker(backend: DockerExecutionBackend) -> None:
    backend.upload_files([("/tmp/headless.py", HEADLESS.encode())])
    heart = f"/tmp/heart-{time.monotonic_ns()}"
    answer = backend.execute(f"python3 /tmp/headless.py {heart} 2 & sleep 0.5; kill -9 $PPID", timeout=20)
    assert answer.exit_code == 137
    assert not grows(backend, heart)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the program is machine code of x86-64")
def test_fast_forking_process_is_killed(backend: DockerExecutionBackend) -> None:
    backend.upload_files([("/tmp/walker", elf(WALKER))])
    backend.execute("chmod +x /tmp/walker")
    delay = machine_delay(backend.sandbox, 0.5)
    try:
        for _ in range(3):
            begun = time.monotonic()
            walk = "for i in $(seq 8); do setsid /tmp/walker & done; sleep 30"
            assert backend.execute(walk, timeout=0.5).exit_code == 124
            assert time.monotonic() - begun < 3 + delay
            last = "cut -d' ' -f5 /proc/loadavg"
            before, after = backend.execute(f"{last}; sleep 0.2; {last}").output.split()
            assert int(after) - int(before) < 10
    finally:
        backend.reset()  # a process that was not killed must not disturb other tests


def test_forks_during_the_kill_are_killed(backend: DockerExecutionBackend) -> None:
    """Every child leaves its process group, session and parent, and sleeps."""
    number = f"9{time.monotonic_ns() % 10**8:08d}"
    forks = (
        "import os, time\nwhile True:\n    if os.fork() == 0:\n        os.setsid()\n"
        f"        if os.fork(): os._exit(0)\n        os.execlp('sleep', 'sleep', '{number}')\n"
        "    time.sleep(0.005)"
    )
    backend.upload_files([("/tmp/forks.py", forks.encode())])
    for seconds in (0.3, 0.31, 0.32, 0.35, 0.4):
        assert backend.execute("python3 /tmp/forks.py 2>/dev/null", timeout=seconds).exit_code == 124
        assert backend.execute(f"pgrep -f '[9]{number[1:]}'").output == ""


def test_command_that_ends_at_the_deadline(backend: DockerExecutionBackend) -> None:
    """A command has either ended or timed out, and the next command works."""
    delay = statistics.median(machine_delay(backend.sandbox, 0) for _ in range(5))
    timeout = round(max(0.06, 3 * delay), 2)
    codes = []
    for index in range(36):
        seconds = timeout * (0.83 + (index % 12 - 6) * 0.13)  # from well before the deadline to well after
        answer = backend.execute(f"sleep {seconds:.3f}; echo done{index}", timeout=timeout)
        codes.append(answer.exit_code)
        assert answer.exit_code in (0, 124)
        if answer.exit_code == 0:
            assert answer.output == f"done{index}\n"
        else:
            assert answer.output.splitlines()[-1].startswith(f"[timed out after {timeout:g} s")
        assert backend.execute(f"echo next{index}").output == f"next{index}\n"
    assert set(codes) == {0, 124}


def test_shortest_time_out(backend: DockerExecutionBackend, workspace: Path) -> None:
    """A command with almost no time may have begun, but has ended when its time-out is reported."""
    late = workspace / "late"
    writes = "echo x >> /workspace/late"
    assert backend.execute(writes).exit_code == 0
    assert late.read_text() == "x\n"
    for _ in range(20):
        answer = backend.execute(f"{writes}; sleep 0.2; {writes}; sleep 30", timeout=0.001)
        assert answer.exit_code == 124, answer.output
        assert answer.output == "[timed out after 0.001 s: everything the command started was ended]"
    size = late.stat().st_size
    time.sleep(0.3)
    assert late.stat().st_size == size <= 2 * 21
    assert backend.execute(writes).exit_code == 0
    assert late.stat().st_size == size + 2
