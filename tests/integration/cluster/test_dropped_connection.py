"""A network that drops the connection of one sandbox alone, while its node and Ray answer."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from libs.sandbox.errors import SandboxDied
from tests.support.cluster.cluster_threads import cluster_threads
from tests.support.cluster.ray_cluster import Cluster


@pytest.fixture
def ports(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The ports of this process from which it has connected to the nodes. Ray makes its own connections."""
    nodes = {node.ip for node in cluster.nodes}
    made: list[int] = []
    connect = socket.create_connection

    def noted(address: tuple[str, int], *arguments: Any, **options: Any) -> socket.socket:
        connection = connect(address, *arguments, **options)
        if address[0] in nodes:
            made.append(connection.getsockname()[1])
        return connection

    monkeypatch.setattr(socket, "create_connection", noted)
    return made


async def test_commands_of_a_dropped_connection_end_and_their_thread_goes_on(
    cluster: Cluster, ports: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with cluster_threads(cluster.address, tmp_path) as threads:
        names = ["one", "two", "three"]
        for name in names:
            await threads.captures.begin_turn(name)
            assert (await threads.step(f"echo {name} > kept", name))[1] == ""
        assert len(ports) == len(names)
        # Two of three threads share a node.
        [(shared, _)] = Counter(threads.node(name) for name in names).most_common(1)
        dropped, other = [name for name in names if threads.node(name) == shared][:2]
        [node] = [each for each in cluster.nodes if each.ip in shared]

        loop, begun = asyncio.get_running_loop(), asyncio.Event()
        running = asyncio.create_task(
            threads.backend.sandbox_of(dropped).arun(
                "echo lost > kept; echo begun; sleep 600",
                timeout=600,
                on_output=lambda _: loop.call_soon_threadsafe(begun.set),
            )
        )
        await begun.wait()
        with node.dropped_connection(ports[names.index(dropped)]):
            async with asyncio.timeout(60):  # the kernel notices after 20 s
                while not running.done():
                    result, note = await threads.step("cat kept", other)
                    assert (result.output, note) == (f"{other}\n", "")
                    await asyncio.sleep(0.2)
            with pytest.raises(SandboxDied, match="the connection broke off"):
                await running
            result, note = await threads.step("cat kept", dropped)
            assert (result.output.splitlines()[-1], note) == (dropped, "")
        assert threads.node(other) == shared
