"""Start, idle memory and end of a sandbox."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from docker import DockerClient

from agent.settings import ROOT
from libs.backends.docker import DockerExecutionBackend
from libs.sandbox.docker.container import DockerSandbox
from libs.sandbox.docker.engine import connect
from libs.sandbox.docker.strays import NAME_LABEL
from libs.sandbox.pool import SandboxPool
from libs.sandbox.workspace import prepare_workspace
from tests.bench.bench_sandboxes import container_of, image, in_thread, memory_of, runtime, wait_until
from tests.bench.measure import Figure, Times, timed
from tests.bench.peers import Peers

IDLE_SECONDS = 12
"""Longer than surplus workers stay."""
ROUNDS = 60
PEERS_EVERY = 12
"""One of so many rounds also measures the peers, which take minutes for five."""
SETTLE_SECONDS = 0.2
"""Pause before each start, because the Engine still removes the previous container."""

OWNER = """
import sys, time
from pathlib import Path
from libs.backends.docker import DockerExecutionBackend
backend = DockerExecutionBackend(Path(sys.argv[1]), name="bench-owner", image=sys.argv[2])
backend.execute("sleep 600 >/dev/null 2>&1 &")
print("ready", flush=True)
time.sleep(600)
"""


def figures(root: Path, peers: Peers) -> Iterator[Figure]:
    client = connect()
    yield from _cold(client, root, peers)
    backend = DockerExecutionBackend(root, name="bench-life", image=image(), runtime=runtime())
    backend.execute("true")
    time.sleep(IDLE_SECONDS)
    used = memory_of(client, str(container_of(backend)))
    backend.close()
    yield Figure("idle sandbox", "MB", {"sandbox": used}, "at most 20 MB", used <= 20)
    gone = sorted(_owner_killed(client, root) for _ in range(5))
    yield Figure(
        "container gone after its owner's death",
        "ms",
        {"sandbox": gone[2]},
        "at most 1000 ms",
        gone[-1] <= 1000,
    )
    client.close()


def _cold(client: DockerClient, root: Path, peers: Peers) -> Iterator[Figure]:
    """Measure from nothing to the first output, without the removal of the container."""
    peers.shut()
    alone = DockerExecutionBackend(root / "cold", name="bench-life", image=image(), runtime=runtime())
    theirs = peers.reporting("cold")
    peers.shut()
    ours = {"bare container": lambda: _bare(client, alone), "sandbox": lambda: _new(alone)}
    samples: dict[str, list[float]] = {name: [] for name in (*ours, *theirs)}
    for number in range(ROUNDS + 2):
        taken = {}
        # Alternate the order, so that each follows the other's removal equally often.
        for name in sorted(ours, reverse=bool(number % 2)):
            time.sleep(SETTLE_SECONDS)
            taken[name] = ours[name]()
        if number % PEERS_EVERY == 2:
            for name, cold in theirs.items():
                taken[name] = cold()
                peers.shut()
        if number >= 2:
            for name, seconds in taken.items():
                samples[name].append(seconds)
    times = Times(samples)
    factor = times.median("sandbox") / times.median("bare container")
    yield times.figure(
        "first command in a new sandbox",
        "at most 1.2 x a bare container",
        factor <= 1.2,
        note=f"{factor:.2f} x a bare container",
    )
    warm = Times({"bare container": samples["bare container"], "sandbox": _spares(root)})
    yield warm.figure(
        "first command of a new thread, a spare ready", "at most 10 ms", warm.median("sandbox") <= 0.010
    )


def _spares(root: Path) -> list[float]:
    spared = DockerExecutionBackend(
        root / "spare", name="bench-life", image=image(), runtime=runtime(), scope="thread", warm=1
    )
    spared.execute("true")
    samples = []
    pool = spared._pool
    assert isinstance(pool, SandboxPool)
    for number in range(ROUNDS // 2 + 2):
        wait_until(lambda: bool(pool._spares._ready))
        time.sleep(SETTLE_SECONDS)
        thread = f"thread-{number}"
        samples.append(in_thread(thread, lambda: timed(lambda: _hi(spared))))
        in_thread(thread, spared.reset)
    spared.close()
    return samples[2:]


def _new(backend: DockerExecutionBackend) -> float:
    seconds = timed(lambda: _hi(backend))
    backend.close()
    return seconds


def _hi(backend: DockerExecutionBackend) -> None:
    assert backend.execute("echo hi").output == "hi\n"


def _bare(client: DockerClient, backend: DockerExecutionBackend) -> float:
    """Return the seconds until a hardened container with only a shell prints hi."""
    begun = time.perf_counter()
    sandbox = backend.sandbox
    assert isinstance(sandbox, DockerSandbox)
    config = sandbox._config(*prepare_workspace(sandbox.root), door=None) | {
        "Entrypoint": ["bash", "-c", "echo hi; exec sleep 60"],
        "OpenStdin": False,
        "AttachStdin": False,
    }
    container: str = client.api.create_container_from_config(config)["Id"]  # type: ignore[no-untyped-call]
    output = client.api.attach(container, stream=True)
    client.api.start(container)
    assert next(output) == b"hi\n"
    seconds = time.perf_counter() - begun
    client.api.remove_container(container, force=True)
    return seconds


def _owner_killed(client: DockerClient, root: Path) -> float:
    """Return the milliseconds from the death of the owner until its container is gone."""
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(root), image()], cwd=ROOT, stdout=subprocess.PIPE
    )
    assert owner.stdout
    assert owner.stdout.readline() == b"ready\n"
    owner.kill()
    begun = time.perf_counter()
    while client.api.containers(filters={"label": f"{NAME_LABEL}=bench-owner"}):
        time.sleep(0.005)
        if time.perf_counter() - begun > 30:
            break
    gone = (time.perf_counter() - begun) * 1000
    owner.wait()
    owner.stdout.close()
    return gone
