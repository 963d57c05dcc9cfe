"""The test cluster itself: two machines with an Engine each, which fail and come back like real ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from typing import Any

import docker
import pytest
import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from tests.support.cluster.ray_cluster import Cluster
from tests.support.cluster.ray_node import Node
from tests.support.sandboxes import IMAGE
from tests.support.waiting import eventually

pytestmark = pytest.mark.usefixtures("driver")


@ray.remote(num_cpus=0)
class Resident:
    """Lives on a node."""

    def engine(self) -> tuple[str, str]:
        """Return the name of the node's Engine and what a container of the image prints."""
        with closing(docker.from_env()) as client:
            printed = client.containers.run(
                IMAGE, ["-c", "print(6 * 7)"], entrypoint="python3", network_mode="none", remove=True
            )
            return client.info()["Name"], printed.decode()

    def pid(self) -> int:
        return os.getpid()


def resident(node: Node) -> Any:
    pinned = NodeAffinitySchedulingStrategy(node.ray_id(), soft=False)
    return Resident.options(scheduling_strategy=pinned).remote()


def test_actor_on_each_node_uses_the_engine_of_its_node(cluster: Cluster) -> None:
    residents = [resident(node) for node in cluster.nodes]
    assert ray.get([each.engine.remote() for each in residents]) == [("node-1", "42\n"), ("node-2", "42\n")]


def test_node_that_is_added_works_until_it_is_removed(cluster: Cluster) -> None:
    third = cluster.add_node(sandboxes=1)
    assert ray.get(resident(third).engine.remote()) == (third.name, "42\n")
    cluster.remove_node(third)
    eventually(lambda: not third.ray_id(), 60)


def is_lost(actor: Any) -> bool:
    """Return whether a call of the actor fails because the actor or its node is gone."""
    try:
        ray.get(actor.pid.remote(), timeout=60)
    except (ActorDiedError, ActorUnavailableError):
        return True
    return False


BREAKS: dict[str, Callable[[Node, int], None]] = {
    "machine killed": lambda node, _: node.kill(),
    "raylet killed": lambda node, _: node.kill_raylet(),
    "actor killed": lambda node, pid: node.kill_process(pid),
    "cut off": lambda node, _: node.cut_off(),
}


@pytest.mark.parametrize("broken", BREAKS)
def test_broken_node_is_noticed_and_comes_back(cluster: Cluster, broken: str) -> None:
    first, second = cluster.nodes
    lost, kept = resident(first), resident(second)
    pid = ray.get(lost.pid.remote())
    BREAKS[broken](first, pid)
    eventually(lambda: is_lost(lost), 60)
    assert ray.get(kept.pid.remote())
    if broken != "actor killed":
        eventually(lambda: not first.ray_id(), 60)
    cluster.repair()
    assert ray.get(resident(first).engine.remote())[0] == "node-1"


def test_node_without_engine_stays_in_the_cluster(cluster: Cluster) -> None:
    node = cluster.nodes[0]
    there = resident(node)
    ray.get(there.engine.remote())
    node.engine.kill()
    with pytest.raises(docker.errors.DockerException):
        ray.get(there.engine.remote())
    cluster.repair()
    assert ray.get(there.engine.remote())[0] == "node-1"
