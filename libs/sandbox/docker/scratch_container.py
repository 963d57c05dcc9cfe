"""Runs one task in a container whose `/workspace` is a tmpfs and is lost with the container."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from libs.sandbox.docker.container import DockerSandbox
from libs.sandbox.docker.container_config import room
from libs.sandbox.errors import SandboxDied
from libs.sandbox.host import Channel, ThreadNotes
from libs.sandbox.workspace import Folders, folder_at, mounts_below, owner_of

__all__ = ["ScratchSandbox"]


class ScratchSandbox(DockerSandbox):
    """One container without a disk on the host. It is not replaced when it has died.

    Args:
        home: the installation's workspace. It is not mounted. Its owner is the user inside, and `sandbox ls`
            lists the container under it.
        disk: size of `/workspace` in bytes. It counts as memory.
        options: see `DockerSandbox`. `read_only` may mount folders in `/workspace`, too.
    """

    spills = False  # nobody can read a file after the task
    renews = False  # a task has one container

    def __init__(self, home: Path, *, disk: int, **options: Any) -> None:
        super().__init__(home, **options)
        self.notes = ThreadNotes()  # the folder is that of other sandboxes
        self.disk = disk
        self._begun = False

    @property
    def unreached(self) -> Collection[str]:
        """The hosts that programs may not reach, and those with which no connection was made. Redacted."""
        channel = self._live()
        hosts = channel.door.unreached.copy() if channel and channel.door else set[str]()
        return {self.redact(host) for host in hosts} if self.redact else hosts

    @property
    def has_network(self) -> bool:
        """Whether there is a gateway. The gateway may still allow no host."""
        return self._egress is not None

    def belongs_to(self, thread: str) -> None:
        """Set the thread of the task, after the start, for the gateway's log and its per-thread state."""
        channel = self._live()
        if channel and channel.door:
            channel.door.belongs_to(self.container_name or "", thread)

    def _connect(self) -> Channel:
        if self._begun:
            raise SandboxDied(
                "The sandbox of this program has ended, and all that was in it.",
                hint="Nothing is known of its end; the next program has another one.",
            )
        self._begun = True
        return super()._connect()

    def _folders_there(self) -> Folders:
        """Return the folders that are mounted to read. No folder of the host is the workspace."""
        folders = self._read_only.values()
        return Folders((None, *map(folder_at, folders)), mounts_below(folders), workspace=False)

    def _prepare(self) -> tuple[int, int]:
        return owner_of(self.root)

    def _workspace(self, uid: int, gid: int) -> tuple[list[dict[str, Any]], dict[str, str]]:
        return [], {"/workspace": f"rw,exec,nosuid,nodev,{room(self.disk)},mode=0755,uid={uid},gid={gid}"}
