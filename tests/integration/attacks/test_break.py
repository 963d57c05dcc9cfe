"""Break things at random moments under load: kill containers and programs, fill memory and disk.

After each break, every running call has ended with its result or a typed error, the next command works, and
the disk holds every acknowledged write. At the end no container and no thread or descriptor is left.

`breaks.py` explains how to replay a run. `test_engine_restart.py` restarts an Engine.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import docker
import docker.errors
import pytest

from libs.backends.docker import DockerExecutionBackend
from libs.sandbox.docker.strays import NAME_LABEL, remove_strays
from tests.load.breaks import IMAGE, LIMITS, SEED, TIMES, attempt, of_thread, under_load
from tests.load.crowd import Crowd, Place
from tests.load.ledger import Ledger, half_files
from tests.load.left import Held, containers, eventually_gone
from tests.support.sandboxes import RUNTIME

pytestmark = [pytest.mark.docker, pytest.mark.thorough, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def seed() -> None:
    print(f"BREAK_SEED={SEED}")  # pytest shows the output of a failed test


@pytest.fixture
def name() -> str:
    return f"break-{os.urandom(4).hex()}"


@pytest.fixture
def nothing_stays(name: str, tmp_path: Path) -> Iterator[None]:
    """Assert that the test leaves no container, thread or descriptor behind.

    The first sandbox of a process starts threads that stay, so one is used before the comparison.
    """
    with DockerExecutionBackend(tmp_path / "first", name=name, image=IMAGE, runtime=RUNTIME) as backend:
        backend.execute("true")
    before = Held()
    yield
    eventually_gone(name)
    before.assert_released()


@pytest.fixture
def places(tmp_path: Path, name: str, nothing_stays: None) -> Iterator[dict[str, Place]]:
    """Make a shared sandbox, and sandboxes of two threads beside a spare."""
    shared = DockerExecutionBackend(
        tmp_path / "shared", name=name, image=IMAGE, runtime=RUNTIME, limits=LIMITS
    )
    threads = DockerExecutionBackend(
        tmp_path / "threads", name=name, image=IMAGE, runtime=RUNTIME, limits=LIMITS, scope="thread"
    )
    with shared, threads:
        found = {"shared": Place(shared.sandbox, tmp_path / "shared")}
        for thread in ("one", "two"):
            found[thread] = Place(of_thread(threads, thread), tmp_path / "threads" / "threads" / thread)
        yield found


def test_containers_killed_sixty_times(
    places: dict[str, Place], name: str, docker_client: docker.DockerClient
) -> None:
    """The Engine kills or removes containers, spares included, or a command kills all processes inside."""
    random = Random(f"{SEED}/container")

    def kill() -> None:
        victim = random.choice(sorted(containers(name)) or ["none"])
        end = random.choice(
            [docker_client.api.kill, lambda it: docker_client.api.remove_container(it, force=True)]
        )
        try:
            end(victim)
        except docker.errors.APIError as error:
            assert error.status_code in (404, 409), error  # the container has already ended
        wait_until_gone(name, victim, 10)

    def kill_from_inside() -> None:
        attempt(random.choice(list(places.values())), "kill -9 -1")

    def reset() -> None:
        random.choice(list(places.values())).sandbox.reset()

    def one_way() -> None:
        random.choice([kill, kill, kill, kill, kill_from_inside, reset])()

    with Crowd(places, seed=SEED, tasks=2) as crowd:
        under_load(crowd, random, 60 * TIMES, one_way, places)


def test_memory_filled_fifteen_times(places: dict[str, Place]) -> None:
    random = Random(f"{SEED}/memory")
    ways = (
        "python3 -c 'x = bytearray(10**9)'",
        "tail /dev/zero",
        "for i in $(seq 8); do python3 -c 'x = bytearray(10**8); import time; time.sleep(1)' & done; wait",
        "head -c 30000000 /dev/zero > /tmp/full; tail /dev/zero; rm /tmp/full",
        "x=$(yes)",
    )

    def fill() -> None:
        attempt(random.choice(list(places.values())), random.choice(ways))

    with Crowd(places, seed=SEED, tasks=2) as crowd:
        under_load(crowd, random, 15 * TIMES, fill, places)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    assert os.geteuid() == 0, "only root can mount a small disk"
    root = tmp_path / "small"
    root.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", root], check=True)
    yield root
    subprocess.run(["umount", root], check=True)


def test_disk_filled_ten_times(small_disk: Path, name: str, nothing_stays: None) -> None:
    random = Random(f"{SEED}/disk")
    with DockerExecutionBackend(
        small_disk, name=name, image=IMAGE, runtime=RUNTIME, limits=LIMITS
    ) as backend:
        place = Place(backend.sandbox, small_disk)

        def fill() -> None:
            attempt(place, "head -c 100M /dev/zero > filler")
            time.sleep(random.uniform(0.0, 0.3))
            if random.random() < 0.3:
                place.sandbox.reset()  # the next sandbox starts on a full disk
                attempt(place, "true")
            assert place.sandbox.run("rm -rf filler .output").exit_code == 0

        with Crowd({"small": place}, seed=SEED, largest=70_000) as crowd:
            under_load(crowd, random, 10 * TIMES, fill, {"small": place})


class Program:
    """A program that works on sandboxes (`tests.load`) until it is killed, and the ledgers of its starts."""

    def __init__(self, root: Path, name: str, scope: str = "shared") -> None:
        root.mkdir()
        self.root, self.name, self.scope = root, name, scope
        self.ledgers: dict[str, Ledger] = {}
        self._starts = 0

    @contextmanager
    def started(self) -> Iterator[Callable[[], str]]:
        """Start the program and yield a function that reads its next line. At the end, kill it and check."""
        lines: list[str] = []

        def next_line() -> str:
            assert process.stdout
            lines.append(process.stdout.readline())
            return lines[-1]

        command = [
            sys.executable,
            "-m",
            "tests.load",
            self.root,
            self.name,
            f"{SEED}/{self._starts}",
            self.scope,
        ]
        self._starts += 1
        with subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                yield next_line
            finally:
                process.kill()
                rest, errors = process.communicate(timeout=30)
        assert process.returncode == -signal.SIGKILL, errors
        nothing_runs(self.name, 3)
        for line in (*lines, *rest.splitlines()):
            worker, _, event = line.partition("\t")
            self.ledgers.setdefault(worker, Ledger()).replay(event)
        for worker, ledger in self.ledgers.items():
            thread = self.root / "threads" / worker.partition("-")[0]
            assert ledger.faults(self.root if self.scope == "shared" else thread) == []

    def assert_no_half_files(self) -> None:
        assert half_files(self.ledgers.values(), self.root, breaks=10 * TIMES) == []


def test_host_program_killed_ten_times(tmp_path: Path, name: str) -> None:
    """The program is killed while it works, and started again: the container is removed, the files stay."""
    random = Random(f"{SEED}/program")
    program = Program(tmp_path / "workspace", name)
    for _ in range(10 * TIMES):
        with program.started() as next_line:
            while (line := next_line()) and '"written"' not in line:
                pass
            time.sleep(random.uniform(0.0, 1.5))
        eventually_gone(name, 3)
    program.assert_no_half_files()


@pytest.mark.parametrize("scope", ["shared", "thread"])
def test_host_program_killed_while_it_starts(
    tmp_path: Path, name: str, docker_client: docker.DockerClient, scope: str
) -> None:
    """Kill the program when the Engine has created, attached or started a container, or at a random moment.

    Containers that ran are gone at once. The next program removes those that were never started.
    """
    random = Random(f"{SEED}/{scope}")
    root = tmp_path / "workspace"
    program = Program(root, name, scope)
    seen: list[str] = []
    moments: list[str | float] = ["create", "attach", "start"] * 2
    moments += [random.uniform(0.0, 2.0) for _ in range(4)]
    random.shuffle(moments)
    for moment in moments * TIMES:
        filters = {"type": "container", "label": f"{NAME_LABEL}={name}", "event": moment}
        events = docker_client.api.events(filters=filters, decode=True) if isinstance(moment, str) else None
        with program.started():
            if events is None:
                time.sleep(float(moment))
            else:
                give_up = threading.Timer(30, events.close)  # ends the wait for an event that never comes
                give_up.start()
                for _ in range(random.randint(1, 3) if scope == "thread" else 1):
                    next(events)
                give_up.cancel()
        if events is not None:
            events.close()
        seen.append(f"{moment}: {sorted(containers(name).values())}")
    print(*seen, sep="\n")
    assert any("created" in line for line in seen), "no kill came between create and start of a container"

    spares = list(root.glob("threads/.spare-*"))
    for spare in spares:
        os.utime(spare, (0, 0))  # the sweep leaves young folders alone
    before = containers(name)
    with program.started() as next_line:
        assert next_line(), "the program did not start to work"
        deadline = time.monotonic() + 15
        while left := [*(before.keys() & containers(name).keys()), *filter(Path.exists, spares)]:
            assert time.monotonic() < deadline, f"never swept: {left}"
            time.sleep(0.1)
    # The killed program may have been about to create a spare itself.
    deadline = time.monotonic() + 15
    while left := [*containers(name)]:
        assert time.monotonic() < deadline, f"never swept: {left}"
        remove_strays(docker_client)
        time.sleep(0.1)
    program.assert_no_half_files()


def nothing_runs(name: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while "running" in (now := containers(name)).values():
        assert time.monotonic() < deadline, now
        time.sleep(0.05)


def wait_until_gone(name: str, container: str, seconds: float) -> None:
    """Wait until a container is gone, and a moment longer so that this process notices."""
    deadline = time.monotonic() + seconds
    while container in containers(name) and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.1)
