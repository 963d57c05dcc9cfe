"""Break nodes and servers at random moments under load: no acknowledged file is lost, and nothing runs twice.

SEED replays a run, as far as threads allow; a failure prints its seed. BREAKS=n breaks n times.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path
from random import Random

import docker
import psutil
import pytest

from libs.sandbox.docker import remove_stray_volumes, volumes
from tests.load.cluster_load import ClusterLoad
from tests.support.cluster.ray_cluster import Cluster
from tests.support.cluster.ray_node import Node
from tests.support.cluster.ray_start import ROOT
from tests.support.sandboxes import IMAGE
from tests.support.waiting import eventually

SEED = os.environ.get("SEED") or os.urandom(4).hex()
BREAKS = int(os.environ.get("BREAKS", "5"))
_SWEEP = (
    "import sys, docker; from libs.sandbox.docker.strays import remove_strays; "
    "remove_strays(docker.DockerClient(sys.argv[1]))"
)
_PATIENCE = 120.0
"""Seconds until every thread must have gone on. Far more than is needed, for machines that are slow."""
_ELSEWHERE = 30.0
"""Seconds until a thread's next command must run, as N2 says. Until a silent node counts as lost, 12 to 14
pass; with ten other programs on two cores, the rest took 1 to 12. After the kill of a server, the time begins
when its next program has imported everything, and took 11 to 17."""

pytestmark = pytest.mark.timeout(600 + BREAKS * 180)


@pytest.fixture
def load(cluster: Cluster, tmp_path: Path) -> Iterator[ClusterLoad]:
    print(f"SEED={SEED}")
    # One node has room for all of them and a spare.
    threads = ["one", "two", "three"]
    with ClusterLoad(tmp_path / "server", cluster.address, threads, seed=SEED, image=IMAGE) as running:
        yield running


def kill_actors(*nodes: Node) -> None:
    """Kill the programs that start the containers on nodes. There must be one."""
    killed = 0
    for process in (each for node in nodes for each in node.machine.processes):
        with suppress(psutil.NoSuchProcess):  # ended meanwhile
            if process.name().startswith("ray::NodeHost"):
                process.kill()
                killed += 1
    assert killed


Break = Callable[[ClusterLoad, Node, Random], object]

BREAKS_OF: dict[str, Break] = {
    "leaves in order": lambda _, node, __: node.leave(),
    "machine off": lambda _, node, __: node.kill(),
    "cut off": lambda _, node, __: node.cut_off(),
    "cut off briefly": lambda _, node, random: (
        node.cut_off(),
        time.sleep(random.uniform(0.5, 6)),
        node.join_again(),
    ),
    "raylet": lambda _, node, __: node.kill_raylet(),
    "engine killed": lambda _, node, __: node.engine.kill(),
    "actor": lambda _, node, __: kill_actors(node),
    "server": lambda load, _, __: (load.kill(), load.start()),
}


def left_on(node: Node, *listing: str) -> list[str]:
    """Return what a node's Engine lists."""
    return node.machine.run(["docker", "--host", node.engine.socket, *listing]).splitlines()


def containers_on(node: Node) -> list[str]:
    """Return the containers of a node, after the clean-up that the next start on the node would begin with.

    An actor that is killed between the creation of a container and its start leaves the container.
    """
    node.machine.run(["env", f"PYTHONPATH={ROOT}", sys.executable, "-c", _SWEEP, node.engine.socket])
    return left_on(node, "ps", "-a", "--format={{.Status}} {{.CreatedAt}} {{.Labels}}")


def folders_on(node: Node) -> list[Path]:
    """Return the folders of actors: each actor removes those of actors that are gone."""
    return list((node.folder / "own").glob("code-agent-node-*"))


def test_nothing_acknowledged_is_lost_whatever_breaks(
    load: ClusterLoad, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(SEED)
    told, times = Counter[str](), list[str]()
    kinds = list(BREAKS_OF)
    load.go_on(_PATIENCE)
    for number in range(BREAKS):
        # Each kind comes before any comes again.
        if number % len(kinds) == 0:
            random.shuffle(kinds)
        # A node on which threads run.
        busy = [node for node in cluster.nodes if any(node.ip in name for name in load.nodes.values())]
        kind, node = kinds[number % len(kinds)], random.choice(busy or cluster.nodes)
        time.sleep(random.uniform(0, 2))
        load.longest = load.gap = 0.0
        begun = time.monotonic()
        BREAKS_OF[kind](load, node, random)
        load.go_on(_PATIENCE, more=2)  # one may be under way
        went_on = time.monotonic() - begun
        assert load.gap < _ELSEWHERE, f"{kind}: no command for {load.gap:.0f} s"
        cluster.repair()
        load.go_on(_PATIENCE)
        told[kind] += 1
        times.append(
            f"{number} {kind} {node.name}: acknowledged after {went_on:.1f} s, no command for "
            f"{load.gap:.1f} s, typed errors after {load.longest:.1f} s; all in "
            f"{time.monotonic() - begun:.1f} s"
        )
        print(times[-1], flush=True)
    load.close()
    load.check()
    print(f"{dict(told)}: {load.steps} steps were acknowledged, {load.lost} lost; errors {dict(load.errors)}")
    monkeypatch.setattr(volumes, "_UNUSED", timedelta())
    for node in cluster.nodes:
        with suppress(AssertionError):
            eventually(lambda node=node: containers_on(node) == [], 60)
        assert containers_on(node) == [], node.name
        # A start on the node would remove those of a machine that was switched off when they are older.
        with closing(docker.DockerClient(node.engine.socket)) as client:
            remove_stray_volumes(client, ())
        assert left_on(node, "volume", "ls", "-q") == []
        assert len(folders_on(node)) <= 1


def test_all_nodes_restarted_one_after_the_other_lose_nothing(load: ClusterLoad, cluster: Cluster) -> None:
    load.go_on(_PATIENCE)
    for node in cluster.nodes:
        node.kill()
        load.go_on(_PATIENCE, more=2)
        cluster.repair()
        load.go_on(_PATIENCE)
    load.close()
    load.check()


def test_server_goes_on_without_the_head_and_joins_the_next_one(cluster: Cluster, tmp_path: Path) -> None:
    """Small steps only: Ray ends a program that sends a large value while Ray is down on its machine."""
    with ClusterLoad(
        *(tmp_path / "server", cluster.address, ["one", "two"]),
        seed=SEED,
        image=IMAGE,
        kinds=["quick"],
        settings={"sandbox_warm": 0},
    ) as load:
        load.go_on(_PATIENCE)
        cluster.kill_head()
        load.go_on(_PATIENCE, more=2)
        assert not load.errors, "running sandboxes need no head"
        if BREAKS > 5:
            time.sleep(90)  # by default, Ray ends programs after a minute without the head
            load.go_on(_PATIENCE)

        kill_actors(*cluster.nodes)
        load.until(lambda: load.errors["ClusterUnavailable"] >= 4, _PATIENCE)
        assert "No Ray cluster answers" in load.said
        assert "Start Ray" in load.said
        assert load.longest < 30
        print(f"said without the head: {load.said!r}, after at most {load.longest:.1f} s")

        cluster.start_head()
        cluster.repair()
        load.go_on(_PATIENCE)
        load.close()
        load.check()
