"""Starts containers on a node, for a server. An actor of Ray, which ends with the server."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from libs.sandbox.cluster.actor.container_order import CheckImage, ContainerOrder, Entrance, Listed, Refusal
from libs.sandbox.cluster.actor.frame_port import FramePort
from libs.sandbox.cluster.actor.node_connection import NodeConnection
from libs.sandbox.cluster.actor.node_folders import Entry, NodeFolders, remove_old_folders
from libs.sandbox.cluster.actor.sources import sources_digest
from libs.sandbox.docker import (
    OWNER_LABEL,
    THREAD_LABEL,
    AttachedTransport,
    answering_client,
    attached_container,
    bind,
    explained,
    hardened_config,
    process_limit,
    remove_stray_volumes,
    sweep_once,
    volume,
)
from libs.sandbox.errors import SandboxError
from libs.sandbox.process_owner import owner_label

if TYPE_CHECKING:
    import docker

__all__ = ["NodeHost"]

_AT_ONCE: Final = 64
"""Calls of the Engine, or waits for a container, at the same time."""
_USER: Final = (1000, 1000)
"""Uid and gid inside: the owner of the image's `/workspace`, which a new volume takes over."""

Result = TypeVar("Result")


class NodeHost:
    """Methods are called by the server only. A `Refusal` says why a call has failed."""

    def __init__(self, address: str, check_image: CheckImage) -> None:
        self._check_image = check_image
        self._port = FramePort(address)
        self._open: dict[str, NodeConnection] = {}
        self._unwanted: set[str] = set()
        """Containers that were closed before they had started."""
        self._starting: set[str] = set()
        """Containers that may not exist yet, although their volumes do."""
        self._work = ThreadPoolExecutor(_AT_ONCE, "node-work")
        place = Path(tempfile.gettempdir())
        remove_old_folders(place)
        self._folders = NodeFolders(place)

    async def sources(self) -> str:
        """Return the digest of this node's sources: see `sources_digest`."""
        return await self._apart(sources_digest)

    async def engine(self) -> str | Refusal:
        """Check the Engine and the image. Return the version of the Engine."""

        def look() -> str:
            client = answering_client(time.monotonic())
            self._check_image(client)
            return f"Docker Engine {client.version()['Version']}"

        try:
            return await self._apart(look)
        except SandboxError as error:
            return Refusal.of(error)

    async def ping(self) -> None:
        """Answer."""

    async def stay(self) -> None:
        """Never answer. Ray ends the call when it learns that this actor has ended."""
        await asyncio.Event().wait()

    async def open(self, order: ContainerOrder) -> Entrance | Refusal:
        """Start a container, whose `/workspace` is an empty volume."""
        try:
            transport = await self._apart(lambda: self._attached(order))
            connection = NodeConnection(transport, order.labels.get(THREAD_LABEL, ""))
            await self._apart(connection.start)
        except SandboxError as error:
            return Refusal.of(error)
        connection.token = self._port.expect(connection.take_up)
        self._open[order.name] = connection
        if order.name in self._unwanted:  # the server did not wait
            self._unwanted.discard(order.name)
            await self.close(order.name)
        return Entrance(self._port.number, connection.token)

    def _attached(self, order: ContainerOrder) -> AttachedTransport:
        client = answering_client(time.monotonic())
        self._check_image(client)
        self._starting.add(order.name)
        try:
            transport = attached_container(client, self._config(client, order), order.name, order.image)
        finally:
            self._starting.discard(order.name)
        sweep_once(client)
        self._work.submit(self._remove_stray_volumes, client)
        return transport

    def _remove_stray_volumes(self, client: docker.DockerClient) -> None:
        with suppress(SandboxError):  # the next start tries again
            remove_stray_volumes(client, self._starting)

    def _config(self, client: docker.DockerClient, order: ContainerOrder) -> dict[str, Any]:
        mounts = [volume("/workspace", order.name)]
        mounts += [
            bind(self._folders.place(key), path, read_only=True)
            for path, key in sorted(order.read_only.items())
        ]
        config = hardened_config(
            order.image,
            _USER,
            order.limits,
            environment=order.environment,
            labels={**order.labels, OWNER_LABEL: owner_label()},
            mounts=mounts,
            disks={},
            runtime=order.runtime,
        )
        if order.runtime:
            config["HostConfig"]["PidsLimit"] = process_limit(client, order.runtime, order.limits.pids)
        return config

    async def epitaph(self, container: str) -> str:
        """Return why a container ended."""
        connection = self._open.get(container)
        return await self._apart(connection.epitaph) if connection else ""

    async def close(self, container: str) -> None:
        """End a container and wait until it is removed."""
        if connection := self._open.pop(container, None):
            self._port.forget(connection.token)
            await self._apart(connection.close)
        else:
            self._unwanted.add(container)

    async def belongs_to(self, container: str, thread: str) -> None:
        """Note the thread of a spare that is taken."""
        if connection := self._open.get(container):
            connection.thread = thread

    async def listed(self) -> list[Listed] | Refusal:
        """Return the containers of the server."""

        def look() -> list[Listed]:
            client = answering_client(time.monotonic())
            return [
                Listed(name, thread, _memory_of(client, name)) for name, thread in sorted(threads.items())
            ]

        threads = {name: connection.thread for name, connection in self._open.items()}
        try:
            return await self._apart(look)
        except SandboxError as error:
            return Refusal.of(error)

    # -- folders

    async def known(self, key: str) -> Mapping[str, Entry]:
        """Return what a mirrored folder holds."""
        return self._folders.known(key)

    async def write(self, key: str, path: str, entry: Entry, offset: int, data: bytes) -> None:
        """Write a piece of a file of a mirrored folder. The last piece puts the file in its place."""
        await self._apart(lambda: self._folders.write(key, path, entry, offset, data))

    async def arrange(self, key: str, entries: Mapping[str, Entry], gone: Collection[str]) -> None:
        """Make folders and links of a mirrored folder, and remove what is gone."""
        await self._apart(lambda: self._folders.arrange(key, entries, gone))

    async def _apart(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._work, work)


def _memory_of(client: docker.DockerClient, container: str) -> int:
    """Return the bytes that a container uses, 0 if it has ended."""
    with suppress(SandboxError), explained():
        return int(client.api.stats(container, stream=False, one_shot=True)["memory_stats"].get("usage", 0))
    return 0
