"""Gives each thread its own sandbox on a cluster, with spares on the nodes in use."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from libs.sandbox.cluster.cluster import Cluster
from libs.sandbox.cluster.cluster_sandbox import ClusterSandbox
from libs.sandbox.pool import Ready, SandboxesByThread

__all__ = ["ClusterPool"]

MakeSandbox = Callable[..., ClusterSandbox]


class ClusterPool:
    """Thread-safe. Starts no sandbox itself, and no spare before the first sandbox.

    Args:
        make: creates a sandbox from a thread (None: a spare) and more arguments.
        warm: number of spares that are kept ready on each node with sandboxes.
    """

    def __init__(self, cluster: Cluster, make: MakeSandbox, *, warm: int) -> None:
        self.cluster = cluster
        self._make = make
        self._spares = _Spares(cluster, make, warm)
        self._threads = SandboxesByThread(lambda thread, _: make(thread, spares=self._spares))

    def sandbox_for(self, thread: str) -> ClusterSandbox:
        """Return the thread's sandbox: the same object as long as it is in use."""
        return self._threads.sandbox_for(thread)

    def fresh(self) -> ClusterSandbox:
        """Return a new sandbox that belongs to no thread, for a short use. The caller closes it."""
        return self._make(None, spares=self._spares)

    def close(self) -> None:
        """Close every sandbox and spare. A later call starts its sandbox again."""
        self._threads.close()
        self._spares.close()
        self.cluster.close()


class _Spares:
    """Spares on each node in use: see `Spares` of `cluster_sandbox`."""

    def __init__(self, cluster: Cluster, make: MakeSandbox, warm: int) -> None:
        self._cluster = cluster
        self._make = make
        self._warm = warm
        self._ready: dict[str, Ready[Any]] = {}
        """Id of a node -> its spares."""
        self._lock = threading.Lock()
        """Held while spares of a node are added or removed, so that no node gets them twice."""

    def take(self) -> ClusterSandbox | None:
        """Return a spare of the node that has the most; None if none is ready."""
        for ready in sorted(self._ready.values(), key=len, reverse=True):
            spare: ClusterSandbox | None = ready.take()
            if spare:
                return spare
        return None

    def fill(self) -> None:
        """Start missing spares in the background, and forget nodes without sandboxes."""
        with self._lock:
            counts = self._cluster.sandboxes()
            used = {node for node, count in counts.items() if count > len(self._ready.get(node, ()))}
            for node in used - self._ready.keys():
                self._ready[node] = Ready(partial(self._make, None, node=node), _close, self._warm)
            for node in used:
                self._ready[node].fill()
            unused = [self._ready.pop(node) for node in self._ready.keys() - used]
        for ready in unused:
            threading.Thread(target=ready.close, name="cluster-spares", daemon=True).start()

    def close(self) -> None:
        """Close the spares."""
        with self._lock:
            closing, self._ready = list(self._ready.values()), {}
        for ready in closing:
            ready.close()


def _close(spare: ClusterSandbox) -> None:
    spare.close()
