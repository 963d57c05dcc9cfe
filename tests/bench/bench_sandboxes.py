"""Helpers of several benchmarks: image, containers and spares."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from docker import DockerClient
from langchain_core.runnables import RunnableLambda

from agent.config import load_settings
from libs.backends.docker import DockerExecutionBackend
from libs.sandbox.docker.container import DockerSandbox

__all__ = ["container_of", "image", "in_thread", "memory_of", "runtime", "wait_until"]

T = TypeVar("T")


def image() -> str:
    """Return the image of the settings."""
    return load_settings(None).sandbox_image


def runtime() -> str | None:
    """Return the container runtime of the settings."""
    return load_settings(None).sandbox_runtime


def in_thread(thread: str, does: Callable[[], T]) -> T:
    """Call `does` in a graph node of this thread."""
    node: RunnableLambda[None, T] = RunnableLambda(lambda _: does())
    return node.invoke(None, {"configurable": {"thread_id": thread}})


def container_of(backend: DockerExecutionBackend) -> str:
    """Return the name of the current thread's container."""
    sandbox = backend.sandbox
    assert isinstance(sandbox, DockerSandbox)
    assert sandbox.container_name
    return sandbox.container_name


def wait_until(ready: Callable[[], object]) -> None:
    """Wait at most a minute until `ready` returns true."""
    deadline = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < deadline, "no spare could be started"
        time.sleep(0.02)


def memory_of(client: DockerClient, name: str) -> float:
    """Return the memory of the container's control group without page cache, in MB."""
    stats = client.api.stats(name, stream=False, one_shot=True)["memory_stats"]
    cache = stats["stats"].get("total_inactive_file", stats["stats"].get("inactive_file", 0))
    return float(stats["usage"] - cache) / 1e6
