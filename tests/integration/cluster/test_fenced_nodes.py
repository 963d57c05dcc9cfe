"""A node that was cut off and comes back cannot write, and a node that has failed is avoided."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster.cluster_threads import ClusterThreads, cluster_threads
from tests.support.cluster.ray_cluster import Cluster
from tests.support.cluster.ray_node import Node
from tests.support.waiting import eventually


@pytest.fixture
def threads(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterThreads]:
    monkeypatch.chdir(tmp_path)
    with cluster_threads(cluster.address, tmp_path) as made:
        yield made


def node_of(cluster: Cluster, threads: ClusterThreads, thread: str = "t") -> Node:
    return next(node for node in cluster.nodes if node.ip in threads.node(thread))


def size_there(node: Node, name: str) -> int:
    """Return the size of a file in the workspaces on a node, 0 without it. Needs no network."""
    volumes = (node.folder / "data" / "volumes").glob(f"*/_data/{name}")
    return sum(path.stat().st_size for path in volumes)


async def test_node_that_was_cut_off_and_comes_back_cannot_write(
    cluster: Cluster, threads: ClusterThreads
) -> None:
    await threads.captures.begin_turn("t")
    result, note = await threads.step(
        "echo 1 > counter; (while :; do echo tick >> ticks; sleep 0.1; done) > /dev/null 2>&1 &"
    )
    assert (result.exit_code, note) == (0, "")
    old = node_of(cluster, threads)
    old.cut_off()
    moved = await threads.elsewhere("cat counter; wc -l < ticks; echo 2 > counter")
    kept = moved.output.splitlines()[-1]
    assert moved.output.splitlines()[-2] == "1"
    assert node_of(cluster, threads) is not old

    # The old sandbox does not know yet, and writes on.
    before = size_there(old, "ticks")
    eventually(lambda: size_there(old, "ticks") > before)
    old.join_again()
    eventually(lambda: size_there(old, "ticks") == 0, 120)
    result, note = await threads.step("cat counter; wc -l < ticks")
    assert (result.output, note) == (f"2\n{kept}\n", "")


async def test_command_goes_on_after_a_brief_cut(cluster: Cluster, threads: ClusterThreads) -> None:
    await threads.captures.begin_turn("t")
    await threads.step("echo 1 > counter")
    node = node_of(cluster, threads)
    prints = "for n in $(seq 50); do echo $n; echo >> ticks; sleep 0.1; done"
    running = asyncio.create_task(threads.step(prints))
    await asyncio.to_thread(eventually, lambda: size_there(node, "ticks"))
    node.cut_off()
    await asyncio.sleep(2)  # a node is lost after 12 seconds, and TCP may need as long again as the cut took
    node.join_again()
    result, note = await running
    assert (result.exit_code, note) == (0, "")
    assert result.output.split() == [str(n + 1) for n in range(50)]
    assert (await threads.step("cat counter"))[0].output == "1\n"
    assert node_of(cluster, threads) is node


async def test_threads_go_on_where_an_engine_answers(cluster: Cluster, threads: ClusterThreads) -> None:
    """Ray knows nothing of Engines: the node without an Engine is the emptiest, and so its first choice."""
    await threads.captures.begin_turn("t")
    await threads.step("echo 1 > kept")
    old = node_of(cluster, threads)
    old.engine.kill()
    eventually(lambda: not threads.backend.sandbox_of("t").running)
    for thread, command in {"t": "cat kept", "u": "echo 1", "v": "echo 1"}.items():
        result, _ = await threads.step(command, thread)
        assert result.output.splitlines()[-1] == "1"
        assert node_of(cluster, threads, thread) is not old
