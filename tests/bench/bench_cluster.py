"""Sandboxes on the nodes of a cluster, beside sandboxes of this machine. The nodes are namespaces of it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import docker

from libs.backends.docker import DockerExecutionBackend, require_image
from libs.persistence.thread_database import SqliteDatabase
from libs.sandbox.cluster import Cluster, ClusterPool, ClusterSandbox
from libs.sandbox.docker import THREAD_LABEL, DockerSandbox, connect
from libs.sandbox.host import ChannelSandbox, ChannelTree
from libs.sandbox.pool import SandboxPool
from libs.workspace import Catalog, Contents, WorkspaceStore
from tests.bench.bench_sandboxes import image, memory_of, wait_until
from tests.bench.measure import Figure, Times, interleaved, timed

if TYPE_CHECKING:
    from tests.support.cluster.ray_node import Node

ROOM = 2_000
"""Sandboxes of a node: more than this machine holds."""
CROWDS = (1, 10, 50, 200)
MORE = 100
"""Sandboxes that are added to the last crowd, as often as this machine holds so many more."""
LEFT_BYTES = 4 * 2**30
"""Memory that stays free."""
LOCAL, THERE = "on this machine", "sandbox"
SIZE = 50_000_000
TRAVELLING = 10_000_000


def figures(root: Path) -> Iterator[Figure]:
    """Start two nodes, and measure sandboxes on them."""
    from tests.support.cluster.ray_cluster import ray_cluster
    from tests.support.cluster.ray_start import AUTHENTICATION

    os.environ |= AUTHENTICATION
    root.mkdir(parents=True)
    with ExitStack() as stack:
        machines = stack.enter_context(ray_cluster(image(), nodes=0))
        nodes = [machines.add_node(sandboxes=ROOM) for _ in range(2)]
        cluster = Cluster(machines.address, partial(require_image, name=image()))
        stack.callback(_leave, cluster)
        make = partial(_sandbox, cluster)
        local = stack.enter_context(DockerSandbox(root / "local", image=image(), name="bench-local"))
        there = stack.enter_context(make("first"))
        yield _commands(local, there)
        yield from _files(local, there)
        yield _idle_memory(local, there, nodes)
        yield _first_command(root, cluster, make)
        yield _taken_up(root, nodes, make)
        yield from _crowds(make)


def _sandbox(cluster: Cluster, thread: str | None, **more: object) -> ClusterSandbox:
    labels = {} if thread is None else {THREAD_LABEL: thread}
    return ClusterSandbox(cluster, image=image(), name="bench-there", labels=labels, **more)  # type: ignore[arg-type]


def _leave(cluster: Cluster) -> None:
    import ray

    cluster.close()
    ray.shutdown()


def _commands(local: DockerSandbox, there: ClusterSandbox) -> Figure:
    times = interleaved(
        {LOCAL: lambda: local.run("echo hi"), THERE: lambda: there.run("echo hi")}, rounds=300
    )
    more = (times.median(THERE) - times.median(LOCAL)) * 1000
    return times.figure(
        "echo hi, warm, on a node", "at most 3 ms more", more <= 3, note=f"{more:.1f} ms more"
    )


def _files(local: DockerSandbox, there: ClusterSandbox) -> Iterator[Figure]:
    content = os.urandom(SIZE)
    for name, does in {
        "up": lambda sandbox: sandbox.write_file("/results/big", content),
        "down": lambda sandbox: sandbox.read_file("/results/big"),
    }.items():
        times = interleaved({LOCAL: partial(does, local), THERE: partial(does, there)}, rounds=7, warm_up=1)
        share = times.median(LOCAL) / times.median(THERE)
        yield times.figure(
            f"50 MB {name}",
            "at least half as fast",
            share >= 0.5,
            unit="s",
            note=f"{share:.2f} times as fast",
        )


def _idle_memory(local: DockerSandbox, there: ClusterSandbox, nodes: list[Node]) -> Figure:
    values = {}
    for name, sandbox, clients in (
        (LOCAL, local, [connect()]),
        (THERE, there, [docker.DockerClient(node.engine.socket) for node in nodes]),
    ):
        sandbox.reset()
        sandbox.run("true")
        time.sleep(1)
        assert sandbox.container_name
        for client in clients:
            if any(each.name == sandbox.container_name for each in client.containers.list()):
                values[name] = memory_of(client, sandbox.container_name)
            client.close()
    more = values[THERE] - values[LOCAL]
    return Figure("memory of an idle sandbox", "MB", values, "at most 2 MB more", more <= 2)


def _first_command(root: Path, cluster: Cluster, make: partial[ClusterSandbox]) -> Figure:
    """Measure the first command of a thread whose spare is ready, here and on a node."""
    local = DockerExecutionBackend(root / "threads", name="bench-here", image=image(), scope="thread", warm=1)
    here = local._of_threads()
    assert isinstance(here, SandboxPool)
    pool = ClusterPool(cluster, make, warm=1)
    spared: dict[str, tuple[Callable[[], bool], Callable[[str], ChannelSandbox]]] = {
        LOCAL: (lambda: bool(here._spares._ready), here.sandbox_for),
        THERE: (lambda: any(len(ready) for ready in pool._spares._ready.values()), pool.sandbox_for),
    }
    samples: dict[str, list[float]] = {name: [] for name in spared}
    for _, sandbox_for in spared.values():
        sandbox_for("before").run("true")
    for number in range(30):
        for name, (is_ready, sandbox_for) in spared.items():
            wait_until(is_ready)
            time.sleep(0.5)
            sandbox = sandbox_for(f"thread-{number}")
            samples[name].append(timed(partial(sandbox.run, "echo hi")))
            sandbox.close()
    local.close()
    pool._threads.close()
    pool._spares.close()
    times = Times({name: taken[2:] for name, taken in samples.items()})
    return times.figure("first command with a spare on a node", "at most 60 ms", times.median(THERE) <= 0.06)


def _taken_up(root: Path, nodes: list[Node], make: partial[ClusterSandbox]) -> Figure:
    """Measure the first command on another node, in a new container, with the files of a snapshot.

    On this machine: the files are brought back into an empty folder, before the first command in it.
    """
    database = SqliteDatabase(root / "threads.sqlite")
    store = WorkspaceStore(Catalog(database), Contents(str(root / "snapshots")))
    ids = [node.ray_id() for node in nodes]
    samples: dict[str, list[float]] = {LOCAL: [], THERE: []}
    for number in range(10):
        before, after = (make(f"moves-{number}", node=node) for node in ids)
        before.run(f"head -c {TRAVELLING} /dev/urandom | split -b 100000 - /results/part-")
        captured = store.capture(before)
        before.close()

        async def fill(tree: ChannelTree, captured: str = captured.id) -> None:
            await store.arestore(tree, captured)

        after.fill = fill
        samples[THERE].append(timed(partial(after.run, "ls /results")))
        after.close()
        with DockerSandbox(root / f"moved-{number}", image=image(), name="bench-local") as here:
            samples[LOCAL].append(timed(partial(_filled, store, here, captured.id)))
    database.close()
    times = Times(samples)
    holds = times.median(THERE) <= 1
    return times.figure("a thread of 10 MB taken up on another node", "at most 1 s", holds, unit="s")


def _filled(store: WorkspaceStore, sandbox: DockerSandbox, captured: str) -> None:
    store.restore(sandbox, captured)
    sandbox.run("ls /results")


def _counts() -> Iterator[int]:
    yield from CROWDS
    count = CROWDS[-1]
    while _free_bytes() > LEFT_BYTES:
        count += MORE
        yield count


def _free_bytes() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    [kilobytes] = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(kilobytes) * 1024


def _crowds(make: partial[ClusterSandbox]) -> Iterator[Figure]:
    """Start many sandboxes on two nodes, and run a command in all of them at once.

    The last crowd is as large as this machine holds.
    """
    sandboxes: list[ClusterSandbox] = []
    with ExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor(16))
        for count in _counts():
            begun = time.perf_counter()
            new = [
                stack.enter_context(make(f"crowd-{len(sandboxes) + n}"))
                for n in range(count - len(sandboxes))
            ]
            list(threads.map(lambda sandbox: sandbox.run("true"), new))
            started = (time.perf_counter() - begun) / max(1, len(new))
            sandboxes += new
            seconds = [asyncio.run(_all(sandboxes)) for _ in range(5)]
            nodes = {sandbox.node for sandbox in sandboxes}
            spread = max(sum(sandbox.node == node for sandbox in sandboxes) for node in nodes)
            times = Times({"start of one": [started], "a command in all": seconds})
            note = f"at most {spread} on one node"
            yield times.figure(f"{count} threads over two nodes", "all answer", True, unit="s", note=note)


async def _all(sandboxes: list[ClusterSandbox]) -> float:
    begun = time.perf_counter()
    results = await asyncio.gather(*(sandbox.arun("echo hi") for sandbox in sandboxes))
    assert all(result.output == "hi\n" for result in results)
    return time.perf_counter() - begun
