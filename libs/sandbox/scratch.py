"""A sandbox whose disk is gone with it: `/workspace` is memory of a fixed size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from libs.sandbox.channel import Channel
from libs.sandbox.container import DockerSandbox, room
from libs.sandbox.errors import SandboxDied
from libs.sandbox.workspace import owner_of

__all__ = ["ScratchSandbox"]


class ScratchSandbox(DockerSandbox):
    """One container that keeps nothing and is not replaced: what it was told to do is over when it has died.

    Args:
        home: the installation's workspace. It is not mounted: `sandbox ls` lists the container as one of
            its, and the user inside is its owner.
        disk: size of `/workspace` in bytes. It counts as memory.
        options: see `DockerSandbox`; `read_only` is mounted in `/workspace` too.
    """

    def __init__(self, home: Path, *, disk: int, **options: Any) -> None:
        super().__init__(home, **options)
        self._disk = disk
        self._begun = False

    def belongs_to(self, thread: str) -> None:
        """Say whose work it does, once it has been started: for the log of what leaves, and for what is
        kept for a thread."""
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

    def _prepare(self) -> tuple[int, int]:
        return owner_of(self.root)

    def _workspace(self, uid: int, gid: int) -> tuple[list[dict[str, Any]], dict[str, str]]:
        return [], {"/workspace": f"rw,exec,nosuid,nodev,{room(self._disk)},mode=0755,uid={uid},gid={gid}"}
