"""Nothing is left of a killed Engine's sandboxes, or of a test cluster whose process was killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil

from libs.sandbox.cluster import Cluster, ClusterSandbox
from tests.load.own_engine import command_lines
from tests.support.cluster.ray_cluster import Cluster as Machines
from tests.support.cluster.ray_node import Node
from tests.support.cluster.ray_start import ROOT
from tests.support.sandboxes import IMAGE
from tests.support.waiting import eventually

PROGRAM = f"""
from tests.support.cluster.network import Network
from tests.support.cluster.ray_node import Node

network = Network()
network.open()
node = Node("node-1", network, head="", image="{IMAGE}", sandboxes=1)
node.start()
run = ["docker", "--host", node.engine.socket, "run", "--detach", "--network=none", "--entrypoint=sleep"]
node.machine.run([*run, "{IMAGE}", "infinity"])
print(network.folder, flush=True)
input()
"""
"""A node with a running container, without Ray, whose processes would end in the same way."""


def volumes_of(node: Node, container: str | None) -> list[str]:
    labelled = f"--filter=label=code-agent.container={container}"
    listed = node.machine.run(["docker", "--host", node.engine.socket, "volume", "ls", "-q", labelled])
    return listed.splitlines()


def test_next_start_on_a_node_removes_volumes_that_its_engine_left(
    joined: Cluster, shared_cluster: Machines, name: str
) -> None:
    with ClusterSandbox(joined, image=IMAGE, name=name) as before:
        before.run("echo secret > /workspace/file")
        container = before.container_name
        node = next(each for each in shared_cluster.nodes if each.ip in before.node)
        node.engine.kill()
        shared_cluster.repair()
    assert volumes_of(node, container)
    with ClusterSandbox(joined, image=IMAGE, name=name, node=node.ray_id()) as after:
        after.run("true")
        assert volumes_of(node, after.container_name)
        eventually(lambda: not volumes_of(node, container))


def test_killed_test_process_leaves_nothing() -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with program:
        assert program.stdout
        folder = Path(program.stdout.readline().strip())
        assert left(folder) == ["folder", "processes", "control groups", "interface"]
        program.kill()
    eventually(lambda: not left(folder), 60)


def left(folder: Path) -> list[str]:
    """Return what is there of a cluster."""
    there = {
        "folder": folder.exists(),
        "processes": any(str(folder).encode() in line for _, line in command_lines()),
        "control groups": any(Path("/sys/fs/cgroup").glob(f"**/{folder.name}")),
        "interface": any(name.endswith(folder.name[-8:]) for name in psutil.net_if_addrs()),
    }
    return [what for what, is_there in there.items() if is_there]
