"""A switch that joins machines with the host, and a keeper that removes what they leave."""

from __future__ import annotations

import random
import socket
import subprocess
import tempfile
from contextlib import suppress
from ipaddress import IPv4Interface, IPv4Network
from pathlib import Path

import psutil

from tests.support.cluster.namespace_machine import Machine

__all__ = ["Network"]

_KEEPER = Path(__file__).with_name("keeper.sh")
_BENCHMARKS = IPv4Network("198.18.0.0/15")
"""Addresses that no real network has: RFC 2544."""


_PORTS = range(20_000, 32_000)
"""Below the ports of outgoing connections, and above those of Ray's workers."""


class Network:
    """A switch in a network namespace of its own, where no firewall of the host reaches it.

    The host has a leg to the switch. Files of the machines belong in `folder`, and control groups of
    containers below `cgroup`. A keeper removes both, and the switch, when the network is closed or the test
    process ends in any way.
    """

    def __init__(self) -> None:
        self._keeper: subprocess.Popen[bytes] | None = None
        self._subnet = _free_subnet()
        self._addresses = (IPv4Interface(f"{host}/{self._subnet.prefixlen}") for host in self._subnet.hosts())
        self._ports: dict[str, str] = {}
        self._leg = ""
        # A short path, because Ray makes sockets below it.
        self.folder = Path(tempfile.mkdtemp(prefix="cluster-"))
        self.cgroup = self.folder.name
        self.address = str(next(self._addresses).ip)
        """The host's address in this network."""

    def open(self) -> None:
        """Start the switch and the keeper, and give the host its address."""
        self._keeper = subprocess.Popen(
            ["unshare", "--net", "bash", _KEEPER, self.folder, self.cgroup],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # an interrupt at the terminal is for the test process alone
        )
        assert self._keeper.stdout
        assert self._keeper.stdout.readline() == b"up\n", "the switch did not start"
        self._leg = f"c-{self.folder.name[-8:]}"
        _ip(f"link add {self._leg} type veth peer name host netns {self._keeper.pid}")
        _ip(f"addr add {self.address}/{self._subnet.prefixlen} dev {self._leg}")
        _ip(f"link set {self._leg} up")
        self._in_switch("ip link set host master switch up")

    def close(self) -> None:
        """Remove the switch, the files and the control groups. The machines must be off."""
        if self._keeper is not None:
            self._keeper.communicate(timeout=240)
            assert self._keeper.returncode == 0
            self._keeper = None

    def new_address(self) -> IPv4Interface:
        """Return an address for a machine."""
        return next(self._addresses)

    def connect(self, machine: Machine, address: IPv4Interface) -> None:
        """Plug a machine that was switched on into the switch, until it is switched off."""
        assert self._keeper
        port = f"port{address.ip.packed[-1]}"
        _ip(f"link add {port} netns {self._keeper.pid} type veth peer name eth0 netns {machine.pid}")
        self._in_switch(f"ip link set {port} master switch up")
        machine.run(["ip", "addr", "add", str(address), "dev", "eth0"])
        machine.run(["ip", "link", "set", "eth0", "up"])
        self._ports[machine.name] = port

    def cut_off(self, machine: Machine) -> None:
        """Drop all packets from and to a machine. Nobody is told: connections stay open."""
        self._in_switch(f"ip link set {self._ports[machine.name]} down")

    def join_again(self, machine: Machine) -> None:
        """End `cut_off`. Harmless if the machine is not cut off."""
        self._in_switch(f"ip link set {self._ports[machine.name]} up")

    def slow_down(self, machine: Machine, megabits: int) -> None:
        """Limit what a machine sends to megabits a second, and likewise what it receives."""
        limit = f"root tbf rate {megabits}mbit burst 32kb latency 200ms"
        self._in_switch(f"tc qdisc replace dev {self._ports[machine.name]} {limit}")
        machine.run(["tc", *f"qdisc replace dev eth0 {limit}".split()])

    def speed_up(self, machine: Machine) -> None:
        """End `slow_down`."""
        self._in_switch(f"tc qdisc delete dev {self._ports[machine.name]} root")
        machine.run(["tc", *["qdisc", "delete", "dev", "eth0", "root"]])

    def free_port(self) -> int:
        """Return a port that is free at all addresses of the host, and that no outgoing connection gets."""
        while True:
            with suppress(OSError), socket.create_server(("", random.choice(_PORTS))) as listening:
                return int(listening.getsockname()[1])

    def _in_switch(self, command: str) -> None:
        assert self._keeper
        subprocess.run(["nsenter", f"--target={self._keeper.pid}", "--net", *command.split()], check=True)


def _ip(command: str) -> None:
    subprocess.run(["ip", *command.split()], check=True)


def _free_subnet() -> IPv4Network:
    """Return a subnet for 14 addresses that no interface of the host uses."""
    used = {entry.address for entries in psutil.net_if_addrs().values() for entry in entries}
    while True:
        subnet = random.choice(list(_BENCHMARKS.subnets(new_prefix=28)))
        if not used & {str(host) for host in subnet}:
            return subnet
