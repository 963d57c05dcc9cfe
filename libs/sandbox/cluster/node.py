"""A node as the server sees it: the actor there, and the sandboxes of this server."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TimedOut
from typing import Any, Final
from weakref import WeakSet

from libs.sandbox.cluster import ray_client
from libs.sandbox.cluster.actor import (
    CheckImage,
    ContainerOrder,
    Entrance,
    Entry,
    Link,
    Refusal,
    connect_link,
    sources_digest,
)
from libs.sandbox.cluster.mirror import Folder, bring, folder_key
from libs.sandbox.cluster.node_transport import NodeTransport
from libs.sandbox.errors import ClusterUnavailable, DockerUnavailable, program

__all__ = ["AGAIN", "Node"]

_LOOK_SECONDS: Final = 0.2
"""Seconds between two looks whether the node is lost, while a call waits."""
_BRIEF: Final = 20.0
"""Seconds for a call that needs no work."""
_ACTOR_SECONDS: Final = 60.0
"""Seconds for the start of the actor, which imports the project."""
_OPEN_SECONDS: Final = 130.0
"""Seconds for the start of a container: the Engine has 60 for each of two steps."""
_ENDING_SECONDS: Final = 10.0
"""Seconds until a container is removed, or until the reason of its end is known."""
_PIECE_SECONDS: Final = 60.0
"""Seconds for a piece of a file."""
AGAIN: Final = "Ask again: the sandbox starts on another node. `ray status` shows the nodes."


class Node:
    """Thread-safe. Methods raise ClusterUnavailable if the node does not answer."""

    def __init__(self, info: ray_client.NodeInfo, check_image: CheckImage) -> None:
        self.id = info.id
        self.name = info.name
        self._address = info.address
        self.lost: str | None = None
        """Why no more is asked of the node."""
        self.failed_at = float("-inf")
        """When the node was lost or its Engine did not answer, as `time.monotonic`."""
        self._transports: WeakSet[NodeTransport] = WeakSet()
        self._lock = threading.Lock()
        self._bringing = threading.Lock()
        self._brought: dict[str, Mapping[str, Entry]] = {}
        """Key of a folder -> what it held when it was brought to the node."""
        self._asked: tuple[Future[Any], float] | None = None
        """The latest ping, and when it was sent."""
        self.host = ray_client.make_host(info, f"{os.getpid()} {secrets.token_hex(4)}", check_image)
        try:
            there = self._ask(self.host.sources, seconds=_ACTOR_SECONDS)
            if there != sources_digest():
                raise ClusterUnavailable(
                    f"Node {self.name} has other sources of this project than this machine.",
                    hint=f"On the node: `git pull` the same commit, then `{program()} setup --node`.",
                )
        except BaseException:
            ray_client.kill(self.host)
            raise
        # Ray tells of the end of an actor by the end of a call.
        ray_client.submit(self.host.stay).add_done_callback(lambda _: self._gone())

    @property
    def sandboxes(self) -> int:
        """Number of sandboxes of this server on the node. Spares are among them."""
        return sum(not transport.closed for transport in list(self._transports))

    def open(self, order: ContainerOrder, place: ray_client.Place) -> NodeTransport:
        """Start a container. `place` is given back when the container has ended.

        Raises:
            SandboxError: the node's Engine refuses, with the name of the node.
        """
        try:
            opened: Entrance | Refusal = self._ask(self.host.open, order, seconds=_OPEN_SECONDS)
            link = opened if isinstance(opened, Refusal) else self._link(opened)
        except BaseException:
            if not self.lost:  # the container may still start
                ray_client.submit(self.host.close, order.name)
            raise
        if isinstance(link, Refusal):
            error = link.error(self.name)
            if isinstance(error, DockerUnavailable):
                self.failed_at = time.monotonic()
            raise error

        def ask(method: str) -> Any:
            return self._ask(getattr(self.host, method), order.name, seconds=_ENDING_SECONDS)

        transport = NodeTransport(link, self.name, ask, place)
        with self._lock:
            self._transports.add(transport)
        if self.lost:  # meanwhile
            transport.cut(self.lost)
        return transport

    def mirror(self, folder: Folder) -> str:
        """Bring a folder to the node, as it is now. Return its key there."""
        key = folder_key(folder.place)
        with self._bringing:
            now = folder.entries()
            if self._brought.get(key) != now and bring(folder, now, _Writer(self)):
                self._brought[key] = now
        return key

    def belongs_to(self, container: str, thread: str) -> None:
        """Tell the node the thread of a container that was a spare."""
        ray_client.submit(self.host.belongs_to, container, thread)

    def silent_seconds(self) -> float:
        """Send a ping if none is under way. Return for how long the latest has had no answer."""
        if self._asked is None or self._asked[0].done():
            if self._asked and self._asked[0].exception():
                self._gone()
            self._asked = ray_client.submit(self.host.ping), time.monotonic()
            return 0.0
        return time.monotonic() - self._asked[1]

    def lose(self, why: str) -> None:
        """Ask nothing more of the node, and end its sandboxes for this server.

        Args:
            why: as in "The sandbox ended: …".
        """
        with self._lock:
            if self.lost:
                return
            self.lost, self.failed_at = why, time.monotonic()
            transports = list(self._transports)
        for transport in transports:
            transport.cut(why)
        # If the node comes back, its containers end.
        ray_client.kill(self.host)

    def _gone(self) -> None:
        self.lose(f"its node {self.name} is gone")

    def _link(self, entrance: Entrance) -> Link:
        try:
            return connect_link(self._address, entrance.port, entrance.token)
        except OSError as error:
            self.failed_at = time.monotonic()
            raise ClusterUnavailable(
                f"Port {entrance.port} of node {self.name} cannot be reached: {error}",
                hint="Let the server reach all ports of its nodes: see docs/cluster.md.",
            ) from error

    def _ask(self, method: Any, *arguments: Any, seconds: float) -> Any:
        future = ray_client.submit(method, *arguments)
        deadline = time.monotonic() + seconds
        while True:
            try:
                return future.result(_LOOK_SECONDS)
            except TimedOut:
                if self.lost or time.monotonic() > deadline:
                    why = "is gone" if self.lost else f"has not answered for {seconds:.0f} seconds"
                    raise ClusterUnavailable(f"Node {self.name} {why}.", hint=AGAIN) from None
            except ClusterUnavailable as error:
                self._gone()
                raise ClusterUnavailable(f"Node {self.name} is gone: {error}", hint=AGAIN) from error


class _Writer:
    """Changes mirrored folders of a node."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def known(self, key: str) -> Mapping[str, Entry]:
        found: Mapping[str, Entry] = self._node._ask(self._node.host.known, key, seconds=_BRIEF)
        return found

    def write(self, key: str, path: str, entry: Entry, offset: int, data: bytes) -> None:
        host = self._node.host
        self._node._ask(host.write, key, path, entry, offset, data, seconds=_PIECE_SECONDS)

    def arrange(self, key: str, entries: Mapping[str, Entry], gone: list[str]) -> None:
        self._node._ask(self._node.host.arrange, key, entries, gone, seconds=_PIECE_SECONDS)
