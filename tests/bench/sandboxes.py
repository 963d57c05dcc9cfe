"""What several parts ask of sandboxes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from docker import DockerClient
from langchain_core.runnables import RunnableLambda

from agent.config import load_settings
from libs.backends.docker import DockerExecutionBackend
from libs.sandbox.container import DockerSandbox

__all__ = ["container_of", "image", "in_thread", "memory_of", "wait_for_spare"]

T = TypeVar("T")


def image() -> str:
    """The image that the settings name."""
    return load_settings(None).sandbox_image


def in_thread(thread: str, does: Callable[[], T]) -> T:
    """Do it as a graph's node does, in a run that belongs to this thread."""
    node: RunnableLambda[None, T] = RunnableLambda(lambda _: does())
    return node.invoke(None, {"configurable": {"thread_id": thread}})


def container_of(backend: DockerExecutionBackend) -> str:
    """The name of the container behind it, in the thread in which this is asked."""
    sandbox = backend.sandbox
    assert isinstance(sandbox, DockerSandbox)
    assert sandbox.container_name
    return sandbox.container_name


def wait_for_spare(backend: DockerExecutionBackend) -> None:
    """Wait until the next new thread finds a sandbox started; at most a minute."""
    assert backend._pool
    deadline = time.monotonic() + 60
    while not backend._pool._spares._ready:
        assert time.monotonic() < deadline, "no spare could be started"
        time.sleep(0.02)


def memory_of(client: DockerClient, name: str) -> float:
    """What the container's control group counts, without page cache, in MB."""
    stats = client.api.stats(name, stream=False, one_shot=True)["memory_stats"]
    cache = stats["stats"].get("total_inactive_file", stats["stats"].get("inactive_file", 0))
    return float(stats["usage"] - cache) / 1e6
