"""A node of a Ray cluster: a machine with an Engine and a raylet."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import IPv4Interface

import psutil

from tests.load.own_engine import OwnEngine
from tests.support.cluster.namespace_machine import Machine
from tests.support.cluster.network import Network
from tests.support.cluster.ray_start import start_ray
from tests.support.waiting import eventually

__all__ = ["Node"]


class Node:
    """A machine with an Engine, whose raylet offers `sandboxes` of the resource `sandbox`."""

    def __init__(self, name: str, network: Network, head: str, image: str, sandboxes: int) -> None:
        self.name = name
        self.address: IPv4Interface = network.new_address()
        self.machine = Machine(name)
        self.folder = network.folder / name
        self.engine = OwnEngine(self.folder, self.machine, image, cgroup=f"{network.cgroup}/{name}")
        self._network = network
        self._head = head
        self._sandboxes = sandboxes
        self._doubtful = False
        """Whether Ray may have to be started again, although it runs."""

    @property
    def ip(self) -> str:
        """Address in the cluster's network: `NodeManagerAddress` in `ray.nodes()`."""
        return str(self.address.ip)

    def start(self) -> None:
        """Switch the machine on, with its Engine and its image. `start_raylet` is to follow."""
        self.folder.mkdir(exist_ok=True)
        self.machine.switch_on()
        self._network.connect(self.machine, self.address)
        for lost in (self.engine.run, self.folder / "own"):
            shutil.rmtree(lost, ignore_errors=True)
        self.engine.start()

    def start_raylet(self) -> None:
        """Start Ray on the node. It joins the cluster as a new node of Ray."""
        self._wait_for_head()
        own = self.folder / "own"
        own.mkdir(exist_ok=True)
        self._ray = start_ray(
            self.machine,
            self.folder / "ray",
            [
                f"--address={self._head}",
                f"--node-ip-address={self.ip}",
                f"--resources={json.dumps({'sandbox': self._sandboxes})}",
            ],
            # What programs of a node keep outside of the project's folder is the node's own.
            DOCKER_HOST=self.engine.socket,
            HOME=str(own),
            TMPDIR=str(own),
        )
        self._doubtful = False

    def ray_id(self) -> str:
        """Return Ray's id of the node, for NodeAffinitySchedulingStrategy. Empty if Ray has declared it dead.

        This process must be a driver. A node whose raylet was started again has another id.
        """
        import ray  # not above: the fixtures are imported where Ray is not installed, too

        for node in ray.nodes():
            if node["Alive"] and node["NodeManagerAddress"] == self.ip:
                return str(node["NodeID"])
        return ""

    def leave(self) -> None:
        """Stop Ray, which leaves the cluster, and switch the machine off."""
        self._ray.send_signal(signal.SIGTERM)
        self._ray.wait(60)
        self.machine.switch_off()

    def kill(self) -> None:
        """Switch the machine off, as when its power fails. Its disk stays."""
        self.machine.switch_off()

    def kill_raylet(self) -> None:
        """Kill the raylet. The other programs of Ray on the node end by themselves; the Engine stays."""
        self._doubtful = True
        with suppress(psutil.NoSuchProcess):
            for process in self._ray.process.children():
                if process.name() == "raylet":
                    process.kill()

    def kill_process(self, pid: int) -> None:
        """Kill a process by its id on the node, such as `os.getpid()` of an actor."""
        self.machine.run(["kill", "-9", str(pid)])

    def cut_off(self) -> None:
        """Drop all packets from and to the node. Its programs run on."""
        self._doubtful = True
        self._network.cut_off(self.machine)

    def join_again(self) -> None:
        """End `cut_off`. If Ray has declared the node dead, its raylet ends, and `repair` starts another."""
        self._network.join_again(self.machine)

    @contextmanager
    def slow_network(self, megabits: int) -> Iterator[None]:
        """Limit what the node sends, and what it receives, to megabits a second."""
        self._network.slow_down(self.machine, megabits)
        try:
            yield
        finally:
            self._network.speed_up(self.machine)

    @contextmanager
    def dropped_connection(self, port: int) -> Iterator[None]:
        """Drop all packets of the connections to the node that come from this port. Nobody is told."""
        rules = (f"INPUT -p tcp --sport {port}", f"OUTPUT -p tcp --dport {port}")
        for rule in rules:
            self.machine.run(["iptables", "--wait", "-A", *rule.split(), "-j", "DROP"])
        try:
            yield
        finally:
            for rule in rules:
                self.machine.run(["iptables", "--wait", "-D", *rule.split(), "-j", "DROP"])

    def doubt(self) -> None:
        """Let `repair` start Ray again, although it may run."""
        self._doubtful = True

    def repair(self) -> None:
        """Bring the node back after any of the above, or after `engine.kill` and `engine.hang`."""
        if not self.machine.pid:
            self._wait_until_dead()
            self.start()
            self.start_raylet()
            return
        self.join_again()
        self.engine.go_on()
        if self.engine.ended:
            self.engine.start()
        if self._doubtful or self._ray.poll() is not None:
            with suppress(psutil.NoSuchProcess):
                for process in [*self._ray.process.children(recursive=True), self._ray.process]:
                    process.kill()
            self._ray.wait(60)
            self._wait_until_dead()
            self.start_raylet()

    def _wait_for_head(self) -> None:
        """Fail if no connection to the head can be made. Ray says the same of a dead head and a slow one."""
        host, _, port = self._head.rpartition(":")
        connect = ["timeout", "5", "bash", "-c", f"exec 3<> /dev/tcp/{host}/{port}"]
        for _ in range(6):
            with suppress(subprocess.CalledProcessError):
                self.machine.run(connect)
                return
            time.sleep(1)
        raise AssertionError(f"{self.name} cannot connect to the head at {self._head}")

    def _wait_until_dead(self) -> None:
        eventually(lambda: not self.ray_id(), 60)
