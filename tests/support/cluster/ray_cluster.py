"""A Ray cluster on this machine: the head on the host, and nodes that are machines of their own."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.cluster.namespace_machine import Machine
from tests.support.cluster.network import Network
from tests.support.cluster.ray_node import Node
from tests.support.cluster.ray_start import start_ray

__all__ = ["Cluster", "empty_cluster", "ray_cluster"]

_TOLD = 1_000
"""Bytes of a log that are told."""


class Cluster:
    """The head and the nodes of a cluster. The head shares the host's network, so a test can be a driver."""

    def __init__(self, network: Network, image: str) -> None:
        self._network = network
        self._image = image
        self._head = Machine("head", own_network=False)
        self.nodes: list[Node] = []
        self.address = f"{network.address}:{network.free_port()}"
        """What `ray.init` and `SANDBOX_CLUSTER` need."""

    @property
    def folder(self) -> Path:
        """Folder of all files, which the keeper removes."""
        return self._network.folder

    def start_head(self) -> None:
        """Start the head. It offers no resources: nothing is placed beside the test."""
        self._head.switch_on()
        start_ray(
            self._head,
            self.folder / "head",
            [
                "--head",
                f"--node-ip-address={self._network.address}",
                f"--port={self.address.rpartition(':')[2]}",
                f"--ray-client-server-port={self._network.free_port()}",
                "--include-dashboard=false",
                "--num-cpus=0",
            ],
        )

    def kill_head(self) -> None:
        """Kill all programs of the head. After `start_head`, Ray takes the head for another cluster."""
        self._head.switch_off()
        for node in self.nodes:
            node.doubt()

    def new_node(self, *, sandboxes: int = 4) -> Node:
        """Describe another node. `start` and `start_raylet` make it a member of the cluster."""
        node = Node(f"node-{len(self.nodes) + 1}", self._network, self.address, self._image, sandboxes)
        self.nodes.append(node)
        return node

    def add_node(self, *, sandboxes: int = 4) -> Node:
        """Add another node to the running cluster."""
        node = self.new_node(sandboxes=sandboxes)
        node.start()
        node.start_raylet()
        return node

    def remove_node(self, node: Node) -> None:
        """Let a node leave the cluster in order, and switch it off for good."""
        self.nodes.remove(node)
        node.leave()

    @contextmanager
    def driver(self) -> Iterator[None]:
        """Connect this process to the cluster as a driver, if it is not connected."""
        import ray  # not above: the fixtures are imported where Ray is not installed, too

        if ray.is_initialized():
            yield
            return
        host = self.address.rpartition(":")[0]
        ray.init(self.address, _node_ip_address=host, log_to_driver=False, logging_level=logging.ERROR)
        try:
            yield
        finally:
            ray.shutdown()

    def repair(self) -> None:
        """Bring back whatever was killed, suspended or cut off. Afterwards all nodes are in the cluster."""
        with self.driver():
            for node in self.nodes:
                node.repair()

    def said(self) -> str:
        """Return the ends of the head's logs, for a cluster that does not come up."""
        patterns = ("log-*", "session_latest/logs/gcs_*")
        logs = [log for pattern in patterns for log in sorted((self.folder / "head").glob(pattern))]
        return "\n".join(f"{log.name}: {log.read_bytes()[-_TOLD:].decode(errors='replace')}" for log in logs)

    def end(self) -> None:
        """Switch everything off."""
        for machine in [*(node.machine for node in self.nodes), self._head]:
            machine.switch_off()


@contextmanager
def empty_cluster(image: str) -> Iterator[Cluster]:
    """Make a network of its own for a cluster. No machine of the cluster runs yet."""
    with ExitStack() as stack:
        network = Network()
        stack.callback(network.close)
        network.open()
        cluster = Cluster(network, image)
        stack.callback(cluster.end)
        yield cluster


@contextmanager
def ray_cluster(image: str, nodes: int = 2) -> Iterator[Cluster]:
    """Run a cluster whose nodes have the image. The environment of its drivers needs `AUTHENTICATION`.

    A cluster that does not come up is made once more, with another network and another head.
    """
    for last in (False, True):
        with empty_cluster(image) as cluster:
            try:
                _bring_up(cluster, nodes)
            except AssertionError as error:
                print(failed := f"The cluster did not come up: {error}\n{cluster.said()}")
                if last:
                    raise AssertionError(failed) from error
                continue
            yield cluster
            return


def _bring_up(cluster: Cluster, nodes: int) -> None:
    members = [cluster.new_node() for _ in range(nodes)]
    with ThreadPoolExecutor() as threads:
        starts = [cluster.start_head, *(node.start for node in members)]
        for started in [threads.submit(start) for start in starts]:
            started.result()
    # One after the other: side by side, they exceed their time-outs on a busy machine.
    for node in members:
        node.start_raylet()
