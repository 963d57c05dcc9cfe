"""Commands exhaust a resource. Afterwards the resource is free, or limited so that others work."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from libs.backends.docker import DockerExecutionBackend, SandboxBusy, SandboxLimits
from libs.sandbox.host import ChannelSandbox
from tests.support.commands.engines import Engines

pytestmark = pytest.mark.docker

MIB = 2**20
LIMITS = SandboxLimits(memory=128 * MIB, tmp=16 * MIB, pids=64, open_files=128, file_size=8 * MIB)

# Takes one more unit until the kernel refuses, and prints the count each time.
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
ends = time.monotonic() + float(sys.argv[2])
while time.monotonic() < ends:
    time.sleep(0.02)
    try:
        if end.startswith("can't"):  # another program may end later: its place is taken, too
            take("again")
    except RuntimeError:
        pass
os._exit(0)
"""
FORK = """
import os, sys, time
try:
    for _ in range(int(sys.argv[1])):
        if os.fork() == 0:
            break
except BlockingIOError:
    os.write(1, b"refused")
time.sleep(240)
"""
FILES = """
os.chdir(sys.argv[1])
def take(name):
    os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
"""
LINKS = "os.chdir(sys.argv[1])\ndef take(name):\n    os.symlink('x' * 4000, name)"
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
    """A program that takes one kind of resource until the kernel refuses."""

    take: str
    least: int
    most: int
    end: str
    """The error of the refusal, or "killed"."""
    place: str = "-"
    free: str = ""
    """Command that frees what remains after the program has ended."""


HOARDERS = {
    "files in /tmp": Hoarder(FILES, 5_000, 5_120, "ENOSPC", "/tmp", "rm -rf /tmp/[0-9]*"),
    "files in /dev/shm": Hoarder(FILES, 2_000, 2_048, "ENOSPC", "/dev/shm", "rm -rf /dev/shm/[0-9]*"),
    "files in /run": Hoarder(FILES, 1_200, 1_280, "ENOSPC", "/run", "rm -rf /run/[0-9]*"),
    "long links": Hoarder(LINKS, 3_000, 5_120, "ENOSPC", "/tmp", "rm -rf /tmp/[0-9]*"),
    "shared memory": Hoarder(SHARED, 15, 32, "killed"),
    "messages": Hoarder(MESSAGES, 64, 64, "ENOSPC", free="ipcrm --all=msg"),
    "semaphores": Hoarder(SEMAPHORES.replace("COUNT", "250"), 16, 16, "ENOSPC", free="ipcrm --all=sem"),
    "sets of semaphores": Hoarder(SEMAPHORES.replace("COUNT", "1"), 64, 64, "ENOSPC", free="ipcrm --all=sem"),
    "descriptors": Hoarder(OPEN, 100, 128, "EMFILE"),
    "pipes": Hoarder(PIPES, 50, 64, "EMFILE"),
    "threads": Hoarder(THREADS, 30, 64, "can't start new thread"),
}


REFUSED = {kind: hoarder for kind, hoarder in HOARDERS.items() if hoarder.end != "killed"}
CHEAPEST = ("files in /tmp", "messages", "descriptors", "threads")


@pytest.fixture
def small(make_backend: Callable[..., DockerExecutionBackend]) -> Iterator[DockerExecutionBackend]:
    with make_backend(limits=LIMITS) as backend:
        yield backend


def still_works(backend: DockerExecutionBackend) -> None:
    """Assert that the sandbox serves commands that need a process, memory and files."""
    answer = backend.execute("python3 -c 'print(len(bytearray(10_000_000)))' | cat", timeout=20)
    assert (answer.exit_code, answer.output) == (0, "10000000\n")
    assert backend.write("/workspace/after", "x").error is None
    assert backend.delete("/workspace/after").error is None


def hoard(backend: DockerExecutionBackend, hoarder: Hoarder) -> tuple[int, str]:
    """Return how many units the program took, and how the kernel refused the next one."""
    backend.write("/workspace/hoard.py", HOARD.replace("TAKE", hoarder.take))
    answer = backend.execute(f"python3 /workspace/hoard.py {hoarder.place} 0", timeout=20)
    lines = answer.output.splitlines()
    assert answer.exit_code == (137 if hoarder.end == "killed" else 0), lines[-5:]
    return max(int(line) for line in lines if line.isdigit()), lines[-1]


@pytest.mark.parametrize(
    "kind",
    [kind if kind in CHEAPEST else pytest.param(kind, marks=pytest.mark.thorough) for kind in HOARDERS],
)
def test_exhausted_resource_is_freed(small: DockerExecutionBackend, kind: str) -> None:
    """A program takes all there is. The next command works, and the same amount can be taken again."""
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


def test_all_resources_exhausted_at_once(small: DockerExecutionBackend, engines: Engines) -> None:
    """Background programs hold everything, and no process is left: the next command fails with an error.

    The error ends the background programs, so the command after it works in the same container. Resources
    that outlive their process are still taken then. No program takes all memory, because the kernel may kill
    any program for that.
    """
    for index, hoarder in enumerate(REFUSED.values()):
        small.write(f"/workspace/hoard-{index}.py", HOARD.replace("TAKE", hoarder.take))
        command = f"python3 /workspace/hoard-{index}.py {hoarder.place} 240 > /workspace/{index}.txt 2>&1 &"
        assert small.execute(command, timeout=5).exit_code == 0
    first = getattr(small.sandbox, "container_name", None)
    wait_for_refusals(engines.on_host(small.sandbox))
    with pytest.raises(SandboxBusy, match="processes"):
        for _ in range(8):  # a command that gets a waiting shell still cannot start a process
            assert small.sandbox.run("echo on | cat", timeout=2).exit_code in (124, 254)
    still_works(small)
    held = small.execute("ipcs -u; df --output=iavail /tmp /dev/shm /run").output
    assert re.findall(r"(?:allocated queues|used arrays) = (\d+)", held) == ["64", "64"]
    assert held.split()[-3:] == ["0", "0", "0"]
    assert getattr(small.sandbox, "container_name", None) == first


def test_only_one_command_fails_when_the_background_took_all_processes(
    small: DockerExecutionBackend, engines: Engines
) -> None:
    """The processes of earlier commands are at the limit. Only the first command after that fails."""
    small.write("/workspace/fork.py", FORK)
    for count in (12, 12, 64):
        started = f"touch {count}.txt; python3 fork.py {count} > {count}.txt 2>&1 &"
        assert small.execute(f"cd /workspace; {started}", timeout=5).exit_code == 0
    last = engines.on_host(small.sandbox, "64.txt")
    deadline = time.monotonic() + 120
    while "refused" not in last.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(lambda _: small.execute("echo on | cat", timeout=20), range(6)))
    assert [answer.exit_code for answer in answers if answer.exit_code] == [125], answers


def wait_for_refusals(workspace: Path) -> None:
    """Wait until the kernel has refused each program."""
    deadline = time.monotonic() + 120
    while True:
        said = {int(path.stem): path.read_text().splitlines() for path in workspace.glob("*.txt")}
        left = {
            kind: said.get(index, [])[-1:]
            for index, (kind, hoarder) in enumerate(REFUSED.items())
            if hoarder.end not in said.get(index, [])
        }
        if not left:
            return
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


def test_download_of_a_growing_file_ends(backend: DockerExecutionBackend) -> None:
    """The file is small when the download opens it, and grows without end while it is read."""
    grow = "cd /workspace; while :; do for size in 0 900G; do truncate -s $size grows; sleep 0.01; done; done"
    backend.execute(f"({grow}) > /dev/null 2>&1 & true")
    try:
        errors = {backend.download_files(["/workspace/grows"])[0].error for _ in range(6)}
        assert errors <= {None, "only files up to 536870912 bytes leave the sandbox"}
    finally:
        backend.reset()
        backend.execute("rm -f /workspace/grows")


@pytest.mark.thorough
def test_more_requests_than_descriptors_are_all_served(
    sandbox_with: Callable[[SandboxLimits], ChannelSandbox],
) -> None:
    with sandbox_with(SandboxLimits(open_files=64)) as sandbox:
        sandbox.run("true")
        container = getattr(sandbox, "container_name", None)
        with ThreadPoolExecutor(40) as threads:
            commands = [threads.submit(sandbox.run, f"sleep 0.3; echo {number}") for number in range(40)]
            assert [done.result().output for done in commands] == [f"{number}\n" for number in range(40)]
            # Meanwhile, idle workers of the commands hold descriptors.
            files = [threads.submit(sandbox.write_file, f"/data/{number}", b"x") for number in range(40)]
            for done in files:
                done.result()
        assert sandbox.run("cd /data; ls | wc -l").output == "40\n"
        assert getattr(sandbox, "container_name", None) == container
