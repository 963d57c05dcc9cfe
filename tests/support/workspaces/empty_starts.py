"""Sandboxes that start with an empty workspace, as on the machines of a cluster."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from libs.backends.docker.sandbox_makers import SandboxMakers
from libs.sandbox.docker import DockerSandbox
from libs.sandbox.host import Channel, ChannelSandbox
from libs.sandbox.host.local_sandbox import LocalSandbox

__all__ = ["EmptyContainer", "EmptyContainers", "EmptyStart", "EmptyStarts"]

# The mixin is used with a sandbox only.
_Sandbox = ChannelSandbox if TYPE_CHECKING else object


class _NewRoots(_Sandbox):
    """Each start uses a new folder below the first `root`. What an earlier one holds is out of reach."""

    starts = 0

    def _connect(self) -> Channel:
        place = self.root.parent if self.starts else self.root
        self.starts += 1
        self.root = place / secrets.token_hex(8)
        return super()._connect()


class EmptyStart(_NewRoots, LocalSandbox):
    """A local sandbox."""

    def kill(self) -> None:
        """End the sandbox, as the loss of its machine does, and wait until that is seen."""
        assert self.process is not None
        assert self._channel is not None
        self.process.kill()
        self._channel._reader.join(20)


class EmptyContainer(_NewRoots, DockerSandbox):
    """A sandbox in a container."""


class EmptyStarts:
    """The sandboxes of a backend, for each thread one that starts empty. Takes the place of its pool."""

    def __init__(self, makers: SandboxMakers, folder: Path) -> None:
        self._makers = makers
        self._folder = folder
        self.made: dict[str, ChannelSandbox] = {}

    def sandbox_for(self, thread: str) -> ChannelSandbox:
        if thread not in self.made:
            self.made[thread] = made = self._new(thread)
            self._makers.attach(thread, made)
        return self.made[thread]

    def _new(self, name: str) -> ChannelSandbox:
        return EmptyStart(self._folder / name, thread=self._makers.thread, records=self._makers.records)

    def close(self) -> None:
        for sandbox in self.made.values():
            sandbox.close()


class EmptyContainers(EmptyStarts):
    """The same in containers."""

    def fresh(self) -> ChannelSandbox:
        return self._new(secrets.token_hex(8))

    def _new(self, name: str) -> ChannelSandbox:
        makers = self._makers
        return EmptyContainer(
            self._folder / name,
            image=makers.image,
            name=makers.name,
            read_only={"/workspace/data": makers.root / "data"},
            redact=makers.redact,
            thread=makers.thread,
            records=makers.records,
        )
