"""What a program holds: to be compared before and after."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections import Counter
from pathlib import Path

import psutil

from libs.sandbox.engine import connect, shared_client
from libs.sandbox.strays import NAME_LABEL

__all__ = ["Held", "containers", "eventually_gone"]


def containers(name: str) -> dict[str, str]:
    """The containers of a backend, in whatever state: name -> state."""
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


class Held:
    """Threads, descriptors and children of this process, as they are now.

    Idle connections to the Engine are closed first: a few are kept on purpose.
    """

    def __init__(self) -> None:
        gc.collect()
        shared_client().api.close()
        self.threads = {thread.ident: thread.name for thread in threading.enumerate()}
        # By what they are: an Engine of the test's own has another process id after each restart.
        self.children = Counter(" ".join(child.cmdline()) for child in psutil.Process().children())
        self.descriptors: dict[str, str] = {}
        for entry in Path("/proc/self/fd").iterdir():
            try:
                self.descriptors[entry.name] = str(entry.readlink())
            except FileNotFoundError:
                continue  # that of the listing itself

    def more_than(self, before: Held) -> list[str]:
        """What is held now and was not then."""
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
        """Wait until nothing more is held than then."""
        deadline = time.monotonic() + seconds
        while more := Held().more_than(self):
            assert time.monotonic() < deadline, f"still held in process {os.getpid()}: {more}"
            time.sleep(0.1)
