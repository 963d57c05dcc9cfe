"""Starting, resting and dying."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from docker import DockerClient

from libs.backends.docker import DockerExecutionBackend
from libs.sandbox.engine import connect
from libs.sandbox.strays import NAME_LABEL
from libs.sandbox.workspace import prepare_workspace
from tests.bench.measure import Figure, Times

IDLE_SECONDS = 12
"""Longer than surplus workers are kept."""

OWNER = """
import sys, time
from pathlib import Path
from libs.backends.docker import DockerExecutionBackend
backend = DockerExecutionBackend(Path(sys.argv[1]), name="bench-owner")
backend.execute("sleep 600 >/dev/null 2>&1 &")
print("ready", flush=True)
time.sleep(600)
"""


def figures(root: Path) -> Iterator[Figure]:
    client = connect()
    backend = DockerExecutionBackend(root, name="bench-life")
    cold = _cold(client, backend)
    factor = cold.median("sandbox") / cold.median("bare container")
    yield cold.figure(
        f"first command in a new sandbox: {factor:.2f} x bare",
        "at most 1.2 x a bare container",
        factor <= 1.2,
    )
    backend.execute("true")
    time.sleep(IDLE_SECONDS)
    used = _memory(client, str(backend.sandbox.container_name))
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


def _cold(client: DockerClient, backend: DockerExecutionBackend) -> Times:
    """From nothing to the first output; removing the container again is not counted."""
    config = backend.sandbox._config(*prepare_workspace(backend.sandbox.root))
    config |= {
        "Entrypoint": ["bash", "-c", "echo hi; exec sleep 60"],
        "OpenStdin": False,
        "AttachStdin": False,
    }
    samples: dict[str, list[float]] = {"bare container": [], "sandbox": []}
    for number in range(12):
        begun = time.perf_counter()
        container = client.api.create_container_from_config(config)["Id"]  # type: ignore[no-untyped-call]
        output = client.api.attach(container, stream=True)
        client.api.start(container)
        assert next(output) == b"hi\n"
        bare = time.perf_counter() - begun
        client.api.remove_container(container, force=True)
        begun = time.perf_counter()
        assert backend.execute("echo hi").output == "hi\n"
        ours = time.perf_counter() - begun
        backend.close()
        if number >= 2:
            samples["bare container"].append(bare)
            samples["sandbox"].append(ours)
    return Times(samples)


def _memory(client: DockerClient, name: str) -> float:
    """What the container's control group counts, without page cache, in MB."""
    stats = client.api.stats(name, stream=False)["memory_stats"]
    cache = stats["stats"].get("total_inactive_file", stats["stats"].get("inactive_file", 0))
    return float(stats["usage"] - cache) / 1e6


def _owner_killed(client: DockerClient, root: Path) -> float:
    """Milliseconds from the death of the owning process until its container no longer runs."""
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(root)], stdout=subprocess.PIPE)
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
