"""A command attacks its own sandbox. The sandbox of another thread keeps answering in time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from libs.backends.docker import DockerExecutionBackend
from libs.sandbox import RunResult
from libs.sandbox.docker.container import DockerSandbox
from tests.load.breaks import IMAGE, LIMITS, of_thread
from tests.support.sandboxes import RUNTIME, SLOWER

pytestmark = pytest.mark.docker

WITHIN = 2.0
"""Seconds allowed for each call of the other sandbox: about 20 times what a call takes under attack."""
CONTENT = bytes(range(256)) * 400
PIDS = "cat /sys/fs/cgroup/pids/pids.events /sys/fs/cgroup/pids.events 2>/dev/null | head -1"
SPECIAL = """
import os, socket
os.makedirs("special", exist_ok=True)
os.chdir("special")
for n in range(2000):
    os.mkfifo(f"fifo-{n}")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"socket-{n}")
print(len(os.listdir(".")))
"""
LINKS = 20_000 // SLOWER
LOOPS = f"""
import os
os.makedirs("loops", exist_ok=True)
os.chdir("loops")
for n in range({LINKS}):
    os.symlink("link-%d" % ((n + 1) % {LINKS}), "link-%d" % n)
os.symlink(".", "here"); os.symlink("..", "up"); os.symlink("self", "self")
try:
    os.stat("link-0")
except OSError as error:
    print(len(os.listdir(".")), error.strerror)
"""


@dataclass(frozen=True)
class Attack:
    command: str
    shown: str
    """Text that the attack or `look` prints. The text proves that the attack took effect."""
    look: str = "true"
    code: int = 0
    timeout: float = 60


ATTACKS = {
    "fork bomb": Attack(
        "bomb() { bomb | bomb & bomb; }; bomb",
        "refused",
        f"[ $({PIDS} | cut -d' ' -f2) -gt 0 ] && echo refused",
        code=124,
        timeout=3,
    ),
    "memory full": Attack(
        "exec 2>&-; for i in $(seq 8); do tail /dev/zero; echo ended $?; done", "ended 137\n" * 8
    ),
    "/tmp full": Attack(
        "for i in $(seq 20); do cat /dev/zero > /tmp/full-$i; done; sleep 1",
        "0\n",
        "df --output=avail /tmp | tail -1 | tr -d ' '; rm /tmp/full-*",
    ),
    "1 GB printed": Attack("yes | head -c 1000000000", "characters left out"),
    "100,000 files": Attack(
        "mkdir many; cd many; seq 100000 | xargs touch", "100000\n", "cd many; ls | wc -l; rm -r ../many"
    ),
    "FIFOs and sockets": Attack(f"python3 -c '{SPECIAL}'", "4000\n"),
    "loops of links": Attack(f"python3 -c '{LOOPS}'", f"{LINKS + 3} Too many levels of symbolic links\n"),
    "kill -9 -1": Attack("kill -9 -1", "[the process that ran it was killed", code=137),
}


@pytest.fixture(scope="module")
def threads(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerExecutionBackend]:
    root = tmp_path_factory.mktemp("neighbours")
    with DockerExecutionBackend(
        root, name="neighbours", image=IMAGE, runtime=RUNTIME, limits=LIMITS, scope="thread", warm=0
    ) as backend:
        yield backend


@pytest.mark.parametrize(
    "kind",
    [kind if kind == "kill -9 -1" else pytest.param(kind, marks=pytest.mark.thorough) for kind in ATTACKS],
)
def test_attack_does_not_affect_another_sandbox(threads: DockerExecutionBackend, kind: str) -> None:
    """While one sandbox is attacked, every call of the other returns the right result in time."""
    attack = ATTACKS[kind]
    one, other = of_thread(threads, "one"), of_thread(threads, "other")
    assert isinstance(other, DockerSandbox)
    assert one.run("true").exit_code == 0
    other.write_file("kept", CONTENT)
    first = other.container_name
    slowest = 0.0
    calls = 0
    with ThreadPoolExecutor() as pool:
        long = pool.submit(other.run, "for i in $(seq 20); do sleep 0.1; done; echo whole")
        under_attack = pool.submit(one.run, attack.command, timeout=attack.timeout)
        while calls < 3 or not under_attack.done():
            begun = time.monotonic()
            answer = other.run(f"echo {calls}")
            assert (answer.output, answer.exit_code) == (f"{calls}\n", 0)
            slowest = max(slowest, time.monotonic() - begun)
            begun = time.monotonic()
            assert other.read_file("kept") == CONTENT
            slowest = max(slowest, time.monotonic() - begun)
            calls += 1
        done: RunResult = under_attack.result()
        assert (long.result().output, long.result().exit_code) == ("whole\n", 0)
    print(f"{calls} times, the slowest call took {slowest:.2f} s")
    assert slowest < WITHIN
    assert done.exit_code == attack.code, done.output
    assert attack.shown in done.output + one.run(attack.look).output
    assert other.container_name == first
    # The attacked sandbox works again too, and its files can be searched.
    assert one.run("echo on").output == "on\n"
    assert one.file("glob", path="/workspace", pattern="**/nothing")[0]
