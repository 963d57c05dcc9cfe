"""Find containers, threads, descriptors and child processes that a test leaves behind."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections import Counter
from pathlib import Path

import psutil

from libs.sandbox.docker.engine import connect, shared_client
from libs.sandbox.docker.strays import NAME_LABEL


def containers(name: str) -> dict[str, str]:
    """Return name and state of the containers of a backend, in any state."""
    client = connect()
    try:
        found = client.api.containers(all=True, filters={"label": f"{NAME_LABEL}={name}"})
        return {item["Names"][0].lstrip("/"): item["State"] for item in found if item["Names"]}
    finally:
        client.close()


def eventually_gone(name: str, seconds: float = 15) -> None:
    """Wait until no container of this name is left."""
    deadline = time.monotonic() + seconds
    while left := containers(name):
        assert time.monotonic() < deadline, f"containers are left: {left}"
        time.sleep(0.1)


_OF_THE_PROCESS = ("sandbox-core", "blocking")
"""Names of threads that stay: those of the event loops in `loop_thread.py`, at most 64 each."""


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.ZombieProcess:
        return f"<ended, not waited for: {process.pid}>"


class Held:
    """The threads, descriptors and children of this process at this moment.

    Idle connections to the Engine are closed first, because the client keeps a few on purpose.
    """

    def __init__(self) -> None:
        gc.collect()
        shared_client().api.close()
        self.threads = {
            thread.ident: thread.name
            for thread in threading.enumerate()
            if not thread.name.startswith(_OF_THE_PROCESS)
        }
        # By command line, because an Engine of the test has a new process id after each restart.
        self.children = Counter(_command(child) for child in psutil.Process().children())
        self.descriptors: dict[str, str] = {}
        for entry in Path("/proc/self/fd").iterdir():
            try:
                self.descriptors[entry.name] = str(entry.readlink())
            except FileNotFoundError:
                continue  # the descriptor of the listing itself

    def more_than(self, before: Held) -> list[str]:
        """Return what is held now and was not held before."""
        more = [f"thread {name}" for ident, name in self.threads.items() if ident not in before.threads]
        more += [f"child {line}" for line in self.children - before.children]
        if len(self.descriptors) > len(before.descriptors):
            more += [
                f"descriptor {number}: {target}"
                for number, target in self.descriptors.items()
                if before.descriptors.get(number) != target
            ]
        return more

    def assert_released(self, seconds: float = 10) -> None:
        """Wait until nothing more is held than at the time of this object."""
        deadline = time.monotonic() + seconds
        while more := Held().more_than(self):
            assert time.monotonic() < deadline, f"still held in process {os.getpid()}: {more}"
            time.sleep(0.1)
