"""Runs a sandbox as one container on a node of a cluster."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from libs.redaction import Redact
from libs.sandbox.cluster.actor import ContainerOrder
from libs.sandbox.cluster.cluster import Cluster, Placed
from libs.sandbox.cluster.mirror import Folder
from libs.sandbox.cluster.node import Node
from libs.sandbox.docker import NAME_LABEL, RUNTIME_HINT, THREAD_LABEL, check_runtime, variables
from libs.sandbox.errors import (
    ClusterFull,
    ClusterUnavailable,
    DockerUnavailable,
    SandboxDied,
    SandboxError,
    program,
)
from libs.sandbox.host import Channel, ChannelSandbox, CommandRecords, Door, Egress
from libs.sandbox.limits import SandboxLimits
from libs.sandbox.workspace import Folders

__all__ = ["ClusterSandbox", "Spares"]

_TRIES: Final = 3
"""Nodes to try for one start."""


class Spares(Protocol):
    """Sandboxes that are started before a thread needs them."""

    def take(self) -> ClusterSandbox | None:
        """Return a spare. None if none is ready."""

    def fill(self) -> None:
        """Start missing spares in the background."""


class ClusterSandbox(ChannelSandbox):
    """One container at a time, on the node that Ray chooses at its start. See `DockerSandbox`.

    Its `/workspace` is a volume of the node, which ends with the container. So a sandbox starts empty: see
    `SandboxLife.fill`. Skills and other folders are brought to the node and mounted read-only.
    """

    isolated = True

    def __init__(
        self,
        cluster: Cluster,
        *,
        image: str,
        name: str,
        limits: SandboxLimits = SandboxLimits(),
        read_only: Mapping[str, Folder] = {},
        environment: Mapping[str, str] = {},
        runtime: str | None = None,
        labels: Mapping[str, str] = {},
        idle_seconds: float = 0,
        spares: Spares | None = None,
        redact: Redact | None = None,
        egress: Egress | None = None,
        records: CommandRecords | None = None,
        thread: Callable[[], str] = str,
        node: str | None = None,
    ) -> None:
        """Create the object. The container starts with the first call.

        Args:
            read_only: path inside -> folder of this machine, whose content is brought to the node.
            node: id of the node; None: Ray chooses.
            image, name, limits, environment, runtime, labels, spares, egress: see `DockerSandbox`.
            idle_seconds, redact, records, thread: see `ChannelSandbox`.
        """
        super().__init__(
            name, limits, idle_seconds=idle_seconds, redact=redact, records=records, thread=thread
        )
        self.root = Path("/workspace")
        self.image = image
        self.container_name: str | None = None
        self._on: Node | None = None
        """The node of the container."""
        self._cluster = cluster
        self._read_only = read_only
        self._environment = environment
        self._runtime = runtime
        self._labels = {NAME_LABEL: name, **labels}
        self._spares = spares
        self._egress = egress
        self._wanted = node

    def _mounted_at(self) -> Sequence[str]:
        return tuple(self._read_only)

    def _connect(self) -> Channel:
        if self._spares is None:
            return self._begin()
        try:
            channel = self._take(self._spares) or self._begin()
        except ClusterFull:
            # A spare that was being started may have taken the last room.
            if (spare := self._take(self._spares)) is None:
                raise
            channel = spare
        # After the start: two starts at once would each take twice as long.
        self._spares.fill()
        return channel

    def _take(self, spares: Spares) -> Channel | None:
        """Take over the container of a spare. None if none is ready."""
        spare = spares.take()
        return self._adopt(spare) if spare else None

    def _adopt(self, spare: ClusterSandbox) -> Channel | None:
        """Take over the container of a spare. None if it has died."""
        with spare._starting:
            channel, spare._channel = spare._channel, None
            self.container_name, spare.container_name = spare.container_name, None
            self._stay(spare._on)
            spare._stay(None)
        if channel and self._on and self.container_name:
            self._on.belongs_to(self.container_name, self._labels.get(THREAD_LABEL, ""))
            self._tell(channel.door)
        return channel

    def _stay(self, node: Node | None) -> None:
        self._on, self.node = node, node.name if node else ""

    def _tell(self, door: Door | None) -> None:
        if door:
            door.belongs_to(self.container_name or "", self._labels.get(THREAD_LABEL, ""))

    def _begin(self) -> Channel:
        """Start a container. If its node dies meanwhile, or has no Engine, try another one."""
        for _ in range(0 if self._wanted else _TRIES - 1):
            placed = self._cluster.place()  # tries other nodes itself
            with suppress(ClusterUnavailable, DockerUnavailable):
                return self._begin_on(placed)
        return self._begin_on(self._cluster.place(self._wanted))

    def _begin_on(self, placed: Placed) -> Channel:
        name = f"{self.name}-{secrets.token_hex(4)}"
        door = self._egress() if self._egress else None
        try:
            transport = placed.open(self._order(name, placed, door))
        except BaseException:
            placed.free()
            raise
        channel = Channel(transport, on_close=transport.release, door=door)
        try:
            if self._runtime:
                check_runtime(channel, self._runtime, self.limits)
        except SandboxError as error:
            channel.close()
            raise self._not_ready(error) if isinstance(error, SandboxDied) else error from None
        self.container_name = name
        self._stay(placed.node)
        self._tell(door)
        return channel

    def _order(self, name: str, placed: Placed, door: Door | None) -> ContainerOrder:
        return ContainerOrder(
            name,
            self.image,
            self.limits,
            variables(self._environment, door),
            self._labels,
            {path: placed.node.mirror(folder) for path, folder in self._read_only.items()},
            self._runtime,
        )

    def _folders_there(self) -> Folders | None:
        """Bring changed files of the folders to the node. None: nothing of this machine is mounted."""
        if self._on and not self._on.lost:
            for folder in self._read_only.values():
                try:
                    self._on.mirror(folder)
                except SandboxError as error:  # the command tells what the node lacks
                    raise OSError(str(error)) from error
        return None

    def _not_ready(self, died: SandboxDied | None) -> SandboxError:
        where = f" on node {self.node}" if self.node else ""
        if died is None:
            return DockerUnavailable(
                f"The container was started{where} and said nothing for a minute.",
                hint="If `docker info` hangs there, restart the Docker Engine of the node.",
            )
        return DockerUnavailable(
            f"The container started{where}, but its supervisor did not come up. {died}".rstrip(),
            hint=RUNTIME_HINT
            if self._runtime
            else f"Rebuild the node's image with `{program()} setup --node`.",
        )

    def close(self) -> None:
        """Stop the container and wait until it is removed, at most 10 seconds."""
        super().close()
        if self._channel is None:
            self.container_name = None
            self._stay(None)
