"""What a command has used up is free again once the command is gone, or bounded so that others still work."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from libs.backends.docker import DockerExecutionBackend, SandboxBusy, SandboxLimits
from libs.sandbox.container import DockerSandbox

pytestmark = pytest.mark.docker

MIB = 2**20
LIMITS = SandboxLimits(memory=128 * MIB, tmp=16 * MIB, pids=64, open_files=128, file_size=8 * MIB)

# Takes until it is refused, and says each time how many it has.
HOARD = """
import ctypes, errno, os, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
def had(answer):
    if answer == -1:
        raise OSError(ctypes.get_errno(), "refused")
    return answer
kept = []
TAKE
taken = 0
os.write(1, b"0\\n")
try:
    while True:
        take(f"{os.getpid()}-{taken}")
        taken += 1
        os.write(1, b"%d\\n" % taken)
except OSError as error:
    end = errno.errorcode[error.errno]
except RuntimeError as error:
    end = str(error)
os.write(1, end.encode() + b"\\n")
time.sleep(float(sys.argv[2]))
os._exit(0)
"""
FILES = """
os.chdir(sys.argv[1])
def take(name):
    os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
"""
FOLDERS = "os.chdir(sys.argv[1])\ntake = os.mkdir"
LINKS = "os.chdir(sys.argv[1])\ndef take(name):\n    os.symlink('x' * 4000, name)"
NAMES = """
os.chdir(sys.argv[1])
def take(name):
    open("f", "a").close()
    os.link("f", name)
"""
SHARED = """
libc.shmat.restype = ctypes.c_void_p
def take(_):
    place = libc.shmat(had(libc.shmget(0, 4 << 20, 0o1600)), None, 0)
    assert place != ctypes.c_void_p(-1).value
    ctypes.memset(place, 1, 4 << 20)
"""
MESSAGES = """
class Message(ctypes.Structure):
    _fields_ = [('kind', ctypes.c_long), ('text', ctypes.c_char * 8192)]
def take(_):
    queue = had(libc.msgget(0, 0o1600))
    sent = 0
    while libc.msgsnd(queue, ctypes.byref(Message(1, b'x')), 8192, 0o4000) == 0:
        sent += 1
    assert sent
"""
SEMAPHORES = "def take(_):\n    had(libc.semget(0, COUNT, 0o1600))"
OPEN = "def take(_):\n    kept.append(os.open('/dev/null', os.O_RDONLY))"
PIPES = "def take(_):\n    kept.extend(os.pipe()); os.write(kept[-1], bytes(4096))"
THREADS = "def take(_):\n    threading.Thread(target=time.sleep, args=(60,)).start()"


@dataclass(frozen=True)
class Hoarder:
    """What takes one kind of thing until it gets no more of it."""

    take: str
    least: int
    most: int
    end: str
    """How it is refused, or "killed"."""
    place: str = "-"
    free: str = ""
    """The command that gives back what outlives whoever took it."""


HOARDERS = {
    "files in /tmp": Hoarder(FILES, 5_000, 5_120, "ENOSPC", "/tmp", "rm -rf /tmp/[0-9]*"),
    "files in /dev/shm": Hoarder(FILES, 2_000, 2_048, "ENOSPC", "/dev/shm", "rm -rf /dev/shm/[0-9]*"),
    "files in /run": Hoarder(FILES, 1_200, 1_280, "ENOSPC", "/run", "rm -rf /run/[0-9]*"),
    "folders": Hoarder(FOLDERS, 5_000, 5_120, "ENOSPC", "/tmp", "rm -rf /tmp/[0-9]*"),
    "long links": Hoarder(LINKS, 3_000, 5_120, "ENOSPC", "/tmp", "rm -rf /tmp/[0-9]*"),
    "hard links": Hoarder(NAMES, 2_000, 2_048, "ENOSPC", "/dev/shm", "rm -rf /dev/shm/[0-9]*"),
    "shared memory": Hoarder(SHARED, 15, 32, "killed"),
    "messages": Hoarder(MESSAGES, 64, 64, "ENOSPC", free="ipcrm --all=msg"),
    "semaphores": Hoarder(SEMAPHORES.replace("COUNT", "250"), 16, 16, "ENOSPC", free="ipcrm --all=sem"),
    "sets of semaphores": Hoarder(SEMAPHORES.replace("COUNT", "1"), 64, 64, "ENOSPC", free="ipcrm --all=sem"),
    "descriptors": Hoarder(OPEN, 100, 128, "EMFILE"),
    "pipes": Hoarder(PIPES, 50, 64, "EMFILE"),
    "threads": Hoarder(THREADS, 30, 64, "can't start new thread"),
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


def hoard(backend: DockerExecutionBackend, hoarder: Hoarder) -> tuple[int, str]:
    """How many it took, and how it was refused the next."""
    backend.write("/workspace/hoard.py", HOARD.replace("TAKE", hoarder.take))
    answer = backend.execute(f"python3 /workspace/hoard.py {hoarder.place} 0", timeout=20)
    lines = answer.output.splitlines()
    assert answer.exit_code == (137 if hoarder.end == "killed" else 0), lines[-5:]
    return max(int(line) for line in lines if line.isdigit()), lines[-1]


@pytest.mark.parametrize("kind", HOARDERS)
def test_one_thing_used_up(small: DockerExecutionBackend, kind: str) -> None:
    """All of it is taken and no more; the next command works, and what is free again can be taken again."""
    hoarder = HOARDERS[kind]
    small.execute("true")
    first = getattr(small.sandbox, "container_name", None)
    assert first
    for _ in range(2):
        taken, end = hoard(small, hoarder)
        assert hoarder.least <= taken <= hoarder.most
        assert end == hoarder.end or hoarder.end == "killed"
        still_works(small)
        if hoarder.free:
            assert hoard(small, hoarder) == (0, hoarder.end)
            still_works(small)
            assert small.execute(hoarder.free).exit_code == 0
    assert getattr(small.sandbox, "container_name", None) == first


def test_everything_used_up_at_once(small: DockerExecutionBackend, tmp_path: Path) -> None:
    """While all of it is held, in the background, and no process is left: an error says so, once.

    That ends what was left running, so the next command works, in the same container; what outlives its
    process is still taken then.
    """
    for index, hoarder in enumerate(HOARDERS.values()):
        small.write(f"/workspace/hoard-{index}.py", HOARD.replace("TAKE", hoarder.take))
        command = f"python3 /workspace/hoard-{index}.py {hoarder.place} 60 > /workspace/{index}.txt 2>&1 &"
        assert small.execute(command, timeout=5).exit_code == 0
    first = getattr(small.sandbox, "container_name", None)
    wait_for_refusals(tmp_path)
    with pytest.raises(SandboxBusy, match="processes"):
        for _ in range(8):  # those that still find a shell ready cannot start anything from it
            assert small.sandbox.run("echo on | cat", timeout=2).exit_code in (124, 254)
    still_works(small)
    held = small.execute("ipcs -u; df --output=iavail /tmp /dev/shm /run").output
    assert re.findall(r"(?:allocated queues|used arrays) = (\d+)", held) == ["64", "64"]
    assert held.split()[-3:] == ["0", "0", "0"]
    assert getattr(small.sandbox, "container_name", None) == first


def wait_for_refusals(workspace: Path) -> None:
    """Wait until each has been refused more; who takes memory is ended by the kernel, at some time."""
    deadline = time.monotonic() + 20
    while True:
        said = {int(path.stem): path.read_text().splitlines() for path in workspace.glob("*.txt")}
        left = {
            kind: said.get(index, [])[-1:]
            for index, (kind, hoarder) in enumerate(HOARDERS.items())
            if hoarder.end != "killed" and hoarder.end not in said.get(index, [])
        }
        if not left:
            return
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


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


def test_more_requests_at_once_than_descriptors_wait_for_each_other(tmp_path: Path) -> None:
    limits = SandboxLimits(open_files=64)
    with DockerExecutionBackend(tmp_path, name="attack-descriptors", limits=limits) as backend:
        sandbox = backend.sandbox
        assert isinstance(sandbox, DockerSandbox)
        sandbox.run("true")
        container = sandbox.container_name
        with ThreadPoolExecutor(40) as threads:
            commands = [threads.submit(sandbox.run, f"sleep 0.3; echo {number}") for number in range(40)]
            files = [threads.submit(sandbox.write_file, f"/data/{number}", b"x") for number in range(40)]
            assert [done.result().output for done in commands] == [f"{number}\n" for number in range(40)]
            for done in files:
                done.result()
        assert sandbox.run("ls /data | wc -l").output == "40\n"
        assert sandbox.container_name == container
