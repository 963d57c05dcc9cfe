"""A node with a slow network delays its own sandboxes alone, and the server holds little of their output."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import psutil

from libs.sandbox.cluster import Cluster, ClusterSandbox
from tests.support.cluster.ray_cluster import Cluster as Machines
from tests.support.sandboxes import IMAGE


async def test_long_output_over_a_slow_network_delays_no_other_node(
    joined: Cluster, shared_cluster: Machines, name: str
) -> None:
    joined.place().free()  # this process is in the cluster now
    server, most, seen = psutil.Process(), 0, 0
    with ExitStack() as stack:
        slow, other = (
            stack.enter_context(ClusterSandbox(joined, image=IMAGE, name=name, node=node.ray_id()))
            for node in shared_cluster.nodes
        )
        for sandbox in (slow, other):
            sandbox.start()
        stack.enter_context(shared_cluster.nodes[0].slow_network(megabits=2))

        def show(output: bytes) -> None:
            nonlocal seen
            seen += len(output)

        before, ran = server.memory_info().rss, 0
        prints = "head -c 200M /dev/zero | tr '\\0' x"
        printing = asyncio.create_task(slow.arun(prints, on_output=show, timeout=300))
        while not printing.done():
            assert (await other.arun("echo on")).output == "on\n"
            ran += not printing.done()
            most = max(most, server.memory_info().rss - before)
        printed = await printing
    assert (printed.exit_code, printed.output[:3]) == (0, "xxx")
    assert 0 < seen < 20_000_000
    assert most < 64_000_000
    assert ran > 5
