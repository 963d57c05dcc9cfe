"""Places sandboxes on the nodes of a Ray cluster, and notices nodes that do not answer."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from functools import partial
from typing import Final

from libs.sandbox.cluster import ray_client
from libs.sandbox.cluster.actor import CheckImage, ContainerOrder
from libs.sandbox.cluster.node import AGAIN, Node
from libs.sandbox.cluster.node_transport import NodeTransport
from libs.sandbox.errors import ClusterFull, ClusterUnavailable

__all__ = ["Cluster", "Placed"]

logger = logging.getLogger(__name__)

_SPARE_SECONDS: Final = 5.0
"""Seconds that a spare waits for room. A longer wait would take the room from sandboxes that wait."""
_LOOK_SECONDS: Final = 2.0
"""Seconds between two looks at the nodes."""
_AGAIN_SECONDS: Final = 8.0
"""Seconds after which a place is asked for anew: Ray may be waiting for the answer of a node that is lost."""
_FAILED_SECONDS: Final = 60.0
"""Seconds for which a node that has failed is avoided. Ray goes on choosing it until Ray counts it as dead,
which takes a minute by default; a node whose Engine has ended is even the emptiest of all."""
_ELSEWHERE_SECONDS: Final = 2.0
"""Seconds to find room on other nodes than those that have failed."""
_SILENT_SECONDS: Final = 12.0
"""Seconds without an answer after which a node counts as lost. N2: the next command runs elsewhere in 30."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Room for one sandbox on a node."""

    node: Node
    place: ray_client.Place

    def open(self, order: ContainerOrder) -> NodeTransport:
        """Start a container. The room is given back when it ends."""
        return self.node.open(order, self.place)

    def free(self) -> None:
        """Give the room back, if no container was started."""
        ray_client.free_place(self.place)


class Cluster:
    """A cluster, joined at the first sandbox. Thread-safe.

    Args:
        address: `host:port` of the head, or `auto` for the node that runs on this machine.
        check_image: see `CheckImage`.
        memory: bytes that Ray sets aside for each sandbox. Apart from the sandbox's limit.
        cpus: processors that Ray sets aside for each sandbox.
        wait_seconds: how long a sandbox waits for room.
    """

    def __init__(
        self,
        address: str,
        check_image: CheckImage,
        *,
        memory: int = 0,
        cpus: float = 0.0,
        wait_seconds: float = 60.0,
    ) -> None:
        self.address = address
        self._check_image = check_image
        self._memory = memory
        self._cpus = cpus
        self._wait_seconds = wait_seconds
        self._nodes: dict[str, Node] = {}
        self._making: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()
        self._watcher: threading.Thread | None = None

    def place(self, node: str | None = None) -> Placed:
        """Reserve room for a sandbox. Waits while the cluster is full.

        Args:
            node: id of the node, for a spare, which does not wait long; None: Ray chooses.

        Raises:
            ClusterFull: there was no room in time.
            ClusterUnavailable: no cluster or no node answers.
        """
        if ray_client.connect(self.address):
            self._lose_all("the head of the cluster was started again")
        wait = min(self._wait_seconds, _SPARE_SECONDS) if node else self._wait_seconds
        deadline = time.monotonic() + wait
        while True:
            left = max(0.1, deadline - time.monotonic())
            found = self._reserved(node, min(left, _AGAIN_SECONDS))
            if found is None:
                if left <= _AGAIN_SECONDS:
                    raise self._full()
                continue
            place, node_id = found
            try:
                return Placed(self._node(node_id), place)
            except BaseException as error:
                ray_client.free_place(place)
                # Ray may place on a node that has just died, until it notices.
                if not isinstance(error, ClusterUnavailable) or time.monotonic() > deadline or node:
                    raise
                time.sleep(0.5)

    def _reserved(self, node: str | None, seconds: float) -> tuple[ray_client.Place, str] | None:
        reserve = partial(ray_client.new_place, memory=self._memory, cpus=self._cpus)
        since = time.monotonic() - _FAILED_SECONDS
        failed = [each.id for each in list(self._nodes.values()) if each.failed_at > since]
        if failed and node is None:
            found = reserve(None, seconds=min(seconds, _ELSEWHERE_SECONDS), without=failed)
            if found:
                return found
        return reserve(node, seconds=seconds)

    def sandboxes(self) -> dict[str, int]:
        """Return the id of each node -> the number of sandboxes of this process there, if there are any."""
        counts = {node.id: node.sandboxes for node in list(self._nodes.values()) if not node.lost}
        return {node: count for node, count in counts.items() if count}

    def close(self) -> None:
        """End the actors of this process, and its sandboxes with them. A later `place` starts new ones."""
        self._lose_all("the server has closed its sandboxes")

    def _lose_all(self, why: str) -> None:
        with self._lock:
            nodes, self._nodes = list(self._nodes.values()), {}
        for node in nodes:
            node.lose(why)

    def _node(self, node_id: str) -> Node:
        with self._lock:
            making = self._making.setdefault(node_id, threading.Lock())
        with making:
            node = self._nodes.get(node_id)
            if node is None or node.lost:
                living = {each.id: each for each in ray_client.living_nodes()}
                if node_id not in living:
                    raise ClusterUnavailable(f"Node {node_id} is gone.", hint=AGAIN)
                node = Node(living[node_id], self._check_image)
                self._watch(node)
            return node

    def _full(self) -> ClusterFull:
        rooms = [node.room for node in ray_client.living_nodes()]
        if not any(rooms):
            return ClusterFull(
                "No node of the cluster takes sandboxes.",
                hint="Join a node with `ray start … --resources='{\"sandbox\": 50}'`: see docs/cluster.md.",
            )
        return ClusterFull(
            f"The cluster was full for {self._wait_seconds:.0f} seconds: its {sum(rooms)} places are taken, "
            "or no node has the memory and the processors that a sandbox reserves.",
            hint="Add a node, wait until other sandboxes are idle, or lower SANDBOX_RESERVE_MEMORY and "
            "SANDBOX_RESERVE_CPUS.",
        )

    def _watch(self, node: Node) -> None:
        with self._lock:
            self._nodes[node.id] = node
            if self._watcher is None:
                self._watcher = threading.Thread(target=self._look, name="cluster-watch", daemon=True)
                self._watcher.start()

    def _look(self) -> None:
        while self._remembers():
            time.sleep(_LOOK_SECONDS)
            for node in list(self._nodes.values()):
                try:
                    if not node.lost and (silent := node.silent_seconds()) > _SILENT_SECONDS:
                        logger.warning("node %s has not answered for %.0f seconds", node.name, silent)
                        node.lose(f"its node {node.name} has not answered for {silent:.0f} seconds")
                except ClusterUnavailable as error:
                    node.lose(f"its node {node.name} is gone: {error}")

    def _remembers(self) -> bool:
        """Forget nodes that were lost a while ago. Return whether any node is left to look at."""
        since = time.monotonic() - _FAILED_SECONDS
        with self._lock:
            self._nodes = {
                key: node for key, node in self._nodes.items() if not node.lost or node.failed_at > since
            }
            if not self._nodes:
                self._watcher = None  # the next node starts another one
            return bool(self._nodes)
