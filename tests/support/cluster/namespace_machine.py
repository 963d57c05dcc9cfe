"""A machine made of namespaces: its own network, processes, mounts and host name, on the disk of the host."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import psutil

__all__ = ["Machine", "Program"]

_INIT = 'hostname "$0" && ip link set lo up && echo up && read -r _'
"""Process 1. Ends with its standard input, whose other end only the test process has. bash reaps orphans."""


class Program:
    """A running program of a machine."""

    def __init__(self, entered: subprocess.Popen[bytes]) -> None:
        self._entered = entered
        """`nsenter`, which waits for the program that is its only child."""

    @property
    def process(self) -> psutil.Process:
        """The program as a process of the host. Raises psutil.NoSuchProcess if the program has ended."""
        while not (children := psutil.Process(self._entered.pid).children()):
            if self._entered.poll() is not None:
                raise psutil.NoSuchProcess(self._entered.pid)
        return children[0]

    def poll(self) -> int | None:
        """Return the exit code, None while the program runs."""
        return self._entered.poll()

    def send_signal(self, number: int) -> None:
        """Send a signal. Does nothing if the program has ended."""
        with suppress(psutil.NoSuchProcess):
            self.process.send_signal(number)
        if number != signal.SIGSTOP:
            self._entered.send_signal(signal.SIGCONT)  # `nsenter` stops itself when its child is stopped

    def wait(self, seconds: float) -> int:
        """Wait until the program has ended and return its exit code. Raises subprocess.TimeoutExpired."""
        return self._entered.wait(seconds)


class Machine:
    """Namespaces that live as long as their process 1. Needs root and util-linux.

    When the machine is switched off, or the process that started the machine ends in any way, the kernel
    kills all programs of the machine. Mounts, network interfaces and namespaces end with the last program.
    Files stay.
    """

    def __init__(self, name: str, *, own_network: bool = True) -> None:
        """Describe a machine.

        Args:
            name: the machine's host name.
            own_network: False if the machine is to share the network of the host.
        """
        self.name = name
        self._own_network = own_network
        self._holder: subprocess.Popen[bytes] | None = None
        self._init = 0
        self._programs: list[Program] = []

    @property
    def pid(self) -> int:
        """Process 1 of the machine, as the host counts. 0 if the machine is off."""
        return self._init

    @property
    def processes(self) -> list[psutil.Process]:
        """All processes of the machine, whoever has started them, except those of containers."""
        own = _namespace(self._init)
        return [each for each in psutil.process_iter() if _namespace(each.pid) == own]

    def switch_on(self) -> None:
        assert os.geteuid() == 0, "only root can make a network namespace"
        kinds = ["--pid", "--mount", "--uts", *(["--net"] if self._own_network else [])]
        self._holder = subprocess.Popen(
            ["unshare", *kinds, "--fork", "--kill-child", "--mount-proc", "bash", "-c", _INIT, self.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._holder.stdout
        assert self._holder.stdout.readline() == b"up\n", f"the machine {self.name} did not start"
        self._init = psutil.Process(self._holder.pid).children()[0].pid

    def switch_off(self) -> None:
        """Kill everything that runs on the machine, at once. Does nothing if the machine is off."""
        if self._holder is not None:
            self._holder.communicate(timeout=60)
            for program in self._programs:
                program.send_signal(signal.SIGCONT)
                program.wait(60)
            self._holder, self._init, self._programs = None, 0, []

    def _entering(self, command: Sequence[str | Path]) -> list[str | Path]:
        kinds = ["--pid", "--mount", "--uts", *(["--net"] if self._own_network else [])]
        return ["nsenter", f"--target={self._init}", *kinds, *command]

    def run(self, command: Sequence[str | Path]) -> str:
        """Run a command to its end and return its output. Raises CalledProcessError."""
        return subprocess.run(self._entering(command), check=True, capture_output=True, text=True).stdout

    def spawn(
        self, command: Sequence[str | Path], log: IO[bytes], environment: Mapping[str, str] | None = None
    ) -> Program:
        """Start a program in a session of its own. Its output goes to the log."""
        entered = subprocess.Popen(
            self._entering(command),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )
        self._programs.append(Program(entered))
        return self._programs[-1]


def _namespace(pid: int) -> Path | None:
    """Return the process namespace of a process; None if the process has ended."""
    try:
        return Path(f"/proc/{pid}/ns/pid").readlink()
    except OSError:
        return None
