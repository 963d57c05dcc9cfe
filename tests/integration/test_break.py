"""Under a mixed load, at random moments: containers and programs killed, memory and disk filled (S9, S12).

After each: every call under way has ended with its result or a typed error, the next command works, and the
disk holds what was acknowledged. At the end nothing is left, in the Engine or in this process.

tests/load/breaks.py says how a run is replayed. tests/integration/test_engine_restart.py restarts an Engine.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import docker
import docker.errors
import pytest

from libs.backends.docker import DockerExecutionBackend
from libs.sandbox.strays import NAME_LABEL, remove_strays
from tests.load.breaks import IMAGE, LIMITS, SEED, TIMES, attempt, of_thread, under_load
from tests.load.crowd import Crowd, Place
from tests.load.ledger import Ledger, half_files
from tests.load.left import Held, containers, eventually_gone

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def seed() -> None:
    print(f"BREAK_SEED={SEED}")  # shown where the test fails


@pytest.fixture
def name() -> str:
    return f"break-{os.urandom(4).hex()}"


@pytest.fixture
def nothing_stays(name: str, tmp_path: Path) -> Iterator[None]:
    """Compares what this process holds after the test with what it held once it had used a sandbox."""
    with DockerExecutionBackend(tmp_path / "first", name=name, image=IMAGE) as backend:
        backend.execute("true")
    before = Held()
    yield
    eventually_gone(name)
    before.assert_released()


@pytest.fixture
def places(tmp_path: Path, name: str, nothing_stays: None) -> Iterator[dict[str, Place]]:
    """A shared sandbox, and those of two threads beside a spare."""
    shared = DockerExecutionBackend(tmp_path / "shared", name=name, image=IMAGE, limits=LIMITS)
    threads = DockerExecutionBackend(
        tmp_path / "threads", name=name, image=IMAGE, limits=LIMITS, scope="thread"
    )
    with shared, threads:
        found = {"shared": Place(shared.sandbox, tmp_path / "shared")}
        for thread in ("one", "two"):
            found[thread] = Place(of_thread(threads, thread), tmp_path / "threads" / "threads" / thread)
        yield found


def test_sixty_containers(places: dict[str, Place], name: str, docker_client: docker.DockerClient) -> None:
    """Killed or removed by the Engine, or all that runs in one killed from inside; spares too."""
    random = Random(f"{SEED}/container")

    def kill() -> None:
        victim = random.choice(sorted(containers(name)) or ["none"])
        end = random.choice(
            [docker_client.api.kill, lambda it: docker_client.api.remove_container(it, force=True)]
        )
        try:
            end(victim)
        except docker.errors.APIError as error:
            assert error.status_code in (404, 409), error  # it went by itself meanwhile
        seen_gone(name, victim, 10)

    def kill_from_inside() -> None:
        attempt(random.choice(list(places.values())), "kill -9 -1")

    def reset() -> None:
        random.choice(list(places.values())).sandbox.reset()

    def one_way() -> None:
        random.choice([kill, kill, kill, kill, kill_from_inside, reset])()

    with Crowd(places, seed=SEED, threads=1, tasks=1) as crowd:
        under_load(crowd, random, 60 * TIMES, one_way, places)


def test_memory_fifteen_times(places: dict[str, Place]) -> None:
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

    with Crowd(places, seed=SEED, threads=1, tasks=1) as crowd:
        under_load(crowd, random, 15 * TIMES, fill, places)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    assert os.geteuid() == 0, "only root can mount a small disk"
    root = tmp_path / "small"
    root.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", root], check=True)
    yield root
    subprocess.run(["umount", root], check=True)


def test_the_disk_ten_times(small_disk: Path, name: str, nothing_stays: None) -> None:
    random = Random(f"{SEED}/disk")
    with DockerExecutionBackend(small_disk, name=name, image=IMAGE, limits=LIMITS) as backend:
        place = Place(backend.sandbox, small_disk)

        def fill() -> None:
            attempt(place, "head -c 100M /dev/zero > filler")
            time.sleep(random.uniform(0.0, 0.3))
            if random.random() < 0.3:
                place.sandbox.reset()  # the next one starts on a full disk
                attempt(place, "true")
            assert place.sandbox.run("rm -rf filler .output").exit_code == 0

        with Crowd({"small": place}, seed=SEED, largest=70_000) as crowd:
            under_load(crowd, random, 10 * TIMES, fill, {"small": place})


def test_the_program_ten_times(tmp_path: Path, name: str) -> None:
    """A program that works is killed and started again: its container goes with it, its files stay."""
    random = Random(f"{SEED}/program")
    ledgers: dict[str, Ledger] = {}
    (tmp_path / "workspace").mkdir()
    for number in range(10 * TIMES):
        with subprocess.Popen(
            [sys.executable, "-m", "tests.load", tmp_path / "workspace", name, f"{SEED}/{number}"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as program:
            try:
                assert program.stdout
                lines = [program.stdout.readline()]
                while lines[-1] and '"written"' not in lines[-1]:
                    lines.append(program.stdout.readline())  # until it has a sandbox: else see below
                time.sleep(random.uniform(0.0, 1.5))
            finally:
                program.kill()
            rest, said = program.communicate(timeout=30)
        assert program.returncode == -signal.SIGKILL, said
        eventually_gone(name, 3)
        for line in (*lines, *rest.splitlines()):
            worker, _, event = line.partition("\t")
            ledgers.setdefault(worker, Ledger()).replay(event)
        faults = [fault for ledger in ledgers.values() for fault in ledger.faults(tmp_path / "workspace")]
        assert faults == []
    assert half_files(ledgers.values(), tmp_path / "workspace", breaks=10 * TIMES) == []


@pytest.mark.parametrize("scope", ["shared", "thread"])
def test_the_program_as_it_starts(
    tmp_path: Path, name: str, docker_client: docker.DockerClient, scope: str
) -> None:
    """Killed from its first moment on: when the Engine has made, attached or started one, or at any time.

    What it had running is gone at once; what was made and never started, by the next program.
    """
    random = Random(f"{SEED}/{scope}")
    root = tmp_path / "workspace"
    root.mkdir()
    ledgers: dict[str, Ledger] = {}
    said: list[str] = []
    program: subprocess.Popen[str]

    def begun() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.load", root, name, f"{SEED}/{len(said)}", scope],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def killed(*lines: str) -> None:
        """Kill it, and see what is left of it, also by the lines that were read already."""
        program.kill()
        rest, errors = program.communicate(timeout=30)
        assert program.returncode == -signal.SIGKILL, errors
        nothing_runs(name, 3)
        for line in (*lines, *rest.splitlines()):
            worker, _, event = line.partition("\t")
            ledgers.setdefault(worker, Ledger()).replay(event)
        for worker, ledger in ledgers.items():
            place = root if scope == "shared" else root / "threads" / worker.partition("-")[0]
            assert ledger.faults(place) == []

    moments: list[str | float] = ["create", "attach", "start"] * 2
    moments += [random.uniform(0.0, 2.0) for _ in range(4)]
    random.shuffle(moments)
    for moment in moments * TIMES:
        filters = {"type": "container", "label": f"{NAME_LABEL}={name}", "event": moment}
        events = docker_client.api.events(filters=filters, decode=True) if isinstance(moment, str) else None
        with begun() as program:
            try:
                if events is None:
                    time.sleep(float(moment))
                else:
                    give_up = threading.Timer(30, events.close)  # then there is no next one
                    give_up.start()
                    for _ in range(random.randint(1, 3) if scope == "thread" else 1):
                        next(events)
                    give_up.cancel()
            finally:
                killed()
        if events is not None:
            events.close()
        said.append(f"{moment}: {sorted(containers(name).values())}")
    print(*said, sep="\n")
    assert any("created" in line for line in said), "no kill came between making and starting one"

    spares = list(root.glob("threads/.spare-*"))
    for spare in spares:
        os.utime(spare, (0, 0))  # the folder of one that waits may be young
    before = containers(name)
    with begun() as program:
        lines: list[str] = []
        try:
            assert program.stdout
            lines.append(program.stdout.readline())
            assert lines[0], "it did not come to work"
            deadline = time.monotonic() + 15
            while left := [*(before.keys() & containers(name).keys()), *filter(Path.exists, spares)]:
                assert time.monotonic() < deadline, f"never swept: {left}"
                time.sleep(0.1)
        finally:
            killed(*lines)
    # It may have been about to make a spare itself.
    deadline = time.monotonic() + 15
    while left := containers(name):
        assert time.monotonic() < deadline, f"never swept: {left}"
        remove_strays(docker_client)
        time.sleep(0.1)
    assert half_files(ledgers.values(), root, breaks=10 * TIMES) == []


def nothing_runs(name: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while "running" in (now := containers(name)).values():
        assert time.monotonic() < deadline, now
        time.sleep(0.05)


def seen_gone(name: str, container: str, seconds: float) -> None:
    """Wait until a container is gone, and this process has had time to hear of it."""
    deadline = time.monotonic() + seconds
    while container in containers(name) and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.1)
