"""Asks Ray for nodes, places on them, and actors. Only `ray_connection` imports Ray, too."""

from __future__ import annotations

import math
from collections.abc import Collection
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from libs.sandbox.cluster.actor import CheckImage, NodeHost
from libs.sandbox.cluster.ray_connection import ASK_SECONDS, NAMESPACE, answered, begun, connect, unavailable
from libs.sandbox.errors import SandboxError

__all__ = [
    "NodeInfo",
    "Place",
    "connect",
    "free_place",
    "hosts",
    "kill",
    "living_nodes",
    "make_host",
    "new_place",
    "submit",
]

_RESOURCE: Final = "sandbox"
"""The resource of Ray that a sandbox uses. Each node offers as many as it has room for."""

Place = Any
"""A placement group of Ray: room for one sandbox on a node."""


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """A living node."""

    id: str
    address: str
    host_name: str
    room: int
    """Sandboxes that fit on the node. 0: the node offers none, as the machine of the server."""

    @property
    def name(self) -> str:
        """The node, as people read it."""
        return f"{self.host_name} ({self.address})"


def living_nodes() -> list[NodeInfo]:
    """Return the nodes that Ray counts as alive. Raises ClusterUnavailable."""
    import ray

    def look() -> list[NodeInfo]:
        # Ray ends this program if the head was started again.
        ray.util.list_named_actors()
        return [
            NodeInfo(
                node["NodeID"],
                node["NodeManagerAddress"],
                node["NodeManagerHostname"],
                int(node["Resources"].get(_RESOURCE, 0)),
            )
            for node in ray.nodes()
            if node["Alive"]
        ]

    return answered(look, ASK_SECONDS)


def new_place(
    node: str | None, *, memory: int, cpus: float, seconds: float, without: Collection[str] = ()
) -> tuple[Place, str] | None:
    """Reserve room for one sandbox. Return it and the id of its node; None if there is no room in time.

    Args:
        node: id of the node; None: Ray chooses.
        memory, cpus: what Ray sets aside for the sandbox: bytes and processors.
        without: ids of nodes that Ray must not choose.

    Raises:
        ClusterUnavailable: Ray does not answer.
    """
    from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group

    bundle: dict[str, float] = {_RESOURCE: 1}
    if memory:
        bundle["memory"] = memory
    if cpus:
        bundle["CPU"] = cpus
    chosen = node or (f"!in({','.join(without)})" if without else "")
    labels = [{"ray.io/node-id": chosen}] if chosen else None

    def reserve() -> tuple[Place, str] | None:
        place = placement_group([bundle], strategy="SPREAD", bundle_label_selector=labels)
        try:
            if not place.wait(math.ceil(seconds)):  # Ray cuts off fractions
                remove_placement_group(place)
                return None
            return place, placement_group_table(place)["bundles_to_node_id"][0]
        except BaseException:
            remove_placement_group(place)
            raise

    def give_back(found: tuple[Place, str] | None) -> None:
        if found:
            free_place(found[0])

    return answered(reserve, seconds + ASK_SECONDS, too_late=give_back)


def free_place(place: Place) -> None:
    """Give room back, without waiting for the head. Does nothing if the cluster is gone."""
    import ray
    from ray.util.placement_group import remove_placement_group

    if ray.is_initialized():
        begun(lambda: remove_placement_group(place))


def make_host(node: NodeInfo, name: str, check_image: CheckImage) -> Any:
    """Start an actor on a node. It ends with this process.

    Args:
        name: distinct from all other actors on the node.
        check_image: imported before the actor answers its first call.

    Raises:
        ClusterUnavailable: Ray does not answer.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    actor = ray.remote(NodeHost).options(
        name=f"{node.id} {name}",
        num_cpus=0,
        scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False),
    )
    # The name of an actor is registered at the head before `remote` returns.
    return answered(lambda: actor.remote(node.address, check_image), ASK_SECONDS, too_late=kill)


def hosts() -> list[tuple[str, Any]]:
    """Return the actors of all servers, each with the id of its node. Raises ClusterUnavailable."""
    import ray

    found: list[tuple[str, Any]] = []
    try:
        for each in ray.util.list_named_actors(all_namespaces=True):
            if each["namespace"] == NAMESPACE:
                with suppress(ValueError):  # ended meanwhile
                    host = ray.get_actor(each["name"], namespace=NAMESPACE)
                    found.append((each["name"].partition(" ")[0], host))
    except ray.exceptions.RayError as error:
        raise unavailable(error) from error
    return found


def submit(method: Any, *arguments: Any) -> Future[Any]:
    """Call a method of an actor.

    The future has ClusterUnavailable if the actor, its node or the cluster is gone, and SandboxError if the
    method has failed.
    """
    from ray.exceptions import RayError, RayTaskError

    answer: Future[Any] = Future()

    def done(called: Future[Any]) -> None:
        error = called.exception()
        if error is None:
            answer.set_result(called.result())
        elif isinstance(error, RayTaskError):
            answer.set_exception(
                SandboxError(
                    f"A node has failed: {error.cause}", hint="Look at the disk and the log of the node."
                )
            )
        else:
            answer.set_exception(unavailable(error))

    try:
        method.remote(*arguments).future().add_done_callback(done)
    except (RayError, OSError, ValueError) as error:
        answer.set_exception(unavailable(error))
    return answer


def kill(host: Any) -> None:
    """End an actor, and its containers with it, without waiting. Does nothing if it has ended."""
    import ray

    if ray.is_initialized():
        begun(lambda: ray.kill(host))
