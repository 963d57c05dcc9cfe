"""What a command has used up is free again once the command is gone, or bounded so that others still work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from libs.backends.docker import DockerExecutionBackend, SandboxLimits

pytestmark = pytest.mark.docker

MIB = 2**20
LIMITS = SandboxLimits(memory=128 * MIB, tmp=16 * MIB, pids=64, open_files=128, file_size=8 * MIB)

FILES = "n = 0\nwhile True:\n    os.close(os.open(f'{sys.argv[1]}/{n}', os.O_CREAT | os.O_WRONLY)); n += 1"
FOLDERS = "n = 0\nwhile True:\n    os.mkdir(f'{sys.argv[1]}/{n}'); n += 1"
LINKS = "n = 0\nwhile True:\n    os.symlink('x' * 4000, f'{sys.argv[1]}/{n}'); n += 1"
NAMES = "os.chdir(sys.argv[1]); open('f', 'w')\nn = 0\nwhile True:\n    os.link('f', str(n)); n += 1"
SHARED = """
libc.shmat.restype = ctypes.c_void_p
while True:
    place = libc.shmat(libc.shmget(0, 4 << 20, 0o1600), None, 0)
    assert place != ctypes.c_void_p(-1).value
    ctypes.memset(place, 1, 4 << 20)
"""
MESSAGES = """
class Message(ctypes.Structure):
    _fields_ = [('kind', ctypes.c_long), ('text', ctypes.c_char * 8192)]
while True:
    queue = libc.msgget(0, 0o1600)
    assert queue >= 0
    while libc.msgsnd(queue, ctypes.byref(Message(1, b'x')), 8192, 0o4000) == 0:
        pass
"""
SEMAPHORES = "while True:\n    assert libc.semget(0, 32000, 0o1600) >= 0"
OPEN = "kept = []\nwhile True:\n    kept.append(os.open('/dev/null', os.O_RDONLY))"
PIPES = "kept = []\nwhile True:\n    kept += (pair := os.pipe()); os.write(pair[1], bytes(65536))"
THREADS = "import threading, time\nwhile True:\n    threading.Thread(target=time.sleep, args=(60,)).start()"
HOARDERS = {
    "files in /tmp": (FILES, "/tmp"),
    "files in /dev/shm": (FILES, "/dev/shm"),
    "files in /run": (FILES, "/run"),
    "folders": (FOLDERS, "/tmp"),
    "long links": (LINKS, "/tmp"),
    "hard links": (NAMES, "/dev/shm"),
    "shared memory": (SHARED, ""),
    "messages": (MESSAGES, ""),
    "semaphores": (SEMAPHORES, ""),
    "descriptors": (OPEN, ""),
    "pipes": (PIPES, ""),
    "threads": (THREADS, ""),
}


@pytest.fixture
def small(tmp_path: Path) -> Iterator[DockerExecutionBackend]:
    with DockerExecutionBackend(tmp_path, name="attack", limits=LIMITS) as backend:
        yield backend


def still_works(backend: DockerExecutionBackend) -> None:
    """Commands that need a process, memory and files are served, by the container that was there."""
    answer = backend.execute("python3 -c 'print(len(bytearray(10_000_000)))' | cat", timeout=20)
    assert (answer.exit_code, answer.output) == (0, "10000000\n")
    assert backend.write("/workspace/after", "x").error is None
    assert backend.delete("/workspace/after").error is None


@pytest.mark.parametrize("kind", HOARDERS)
def test_one_thing_used_up(small: DockerExecutionBackend, kind: str) -> None:
    program, argument = HOARDERS[kind]
    small.write("/workspace/hoard.py", f"import ctypes, os, sys\nlibc = ctypes.CDLL(None)\n{program}\n")
    small.execute("true")
    first = getattr(small.sandbox, "container_name", None)
    for _ in range(2):
        answer = small.execute(f"python3 /workspace/hoard.py {argument}", timeout=3)
        assert answer.exit_code in (1, 124, 137), answer.output
        still_works(small)
    assert getattr(small.sandbox, "container_name", None) == first


def test_everything_used_up_at_once(small: DockerExecutionBackend) -> None:
    for index, (program, argument) in enumerate(HOARDERS.values()):
        head = "import ctypes, os, sys, time\nlibc = ctypes.CDLL(None)\ntry:\n"
        body = f"{head}    exec({program!r})\nfinally:\n    time.sleep(30)"
        small.write(f"/workspace/hoard-{index}.py", body)
        small.execute(f"python3 /workspace/hoard-{index}.py {argument} > /dev/null 2>&1 & true", timeout=5)
    answer = small.execute("head -c 20000000 /dev/zero > /workspace/big; yes > /tmp/y & wait", timeout=3)
    assert answer.exit_code in (0, 1, 124, 125, 137, 254)
    small.reset()
    still_works(small)


def test_a_file_that_grows_while_it_is_downloaded(backend: DockerExecutionBackend) -> None:
    """Its size is small when it is opened and without end when it is read."""
    grow = "cd /workspace; while :; do for size in 0 900G; do truncate -s $size grows; sleep 0.01; done; done"
    backend.execute(f"({grow}) > /dev/null 2>&1 & true")
    try:
        errors = {backend.download_files(["/workspace/grows"])[0].error for _ in range(6)}
        assert errors <= {None, "only files up to 536870912 bytes leave the sandbox"}
    finally:
        backend.reset()
        backend.execute("rm -f /workspace/grows")
