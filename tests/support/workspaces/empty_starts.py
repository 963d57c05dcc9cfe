"""Sandboxes that start with an empty workspace, as on the machines of a cluster."""

from __future__ import annotations

import secrets
from pathlib import Path

from libs.backends.docker.sandbox_makers import SandboxMakers
from libs.sandbox.host import Channel
from libs.sandbox.host.local_sandbox import LocalSandbox

__all__ = ["EmptyStart", "EmptyStarts"]


class EmptyStart(LocalSandbox):
    """Each start uses a new folder below the first `root`. What an earlier one holds is out of reach."""

    starts = 0

    def _connect(self) -> Channel:
        place = self.root.parent if self.starts else self.root
        self.starts += 1
        self.root = place / secrets.token_hex(8)
        return super()._connect()

    def kill(self) -> None:
        """End the sandbox, as the loss of its machine does, and wait until that is seen."""
        assert self.process is not None
        assert self._channel is not None
        self.process.kill()
        self._channel._reader.join(20)


class EmptyStarts:
    """The sandboxes of a backend, for each thread one that starts empty. Takes the place of its pool."""

    def __init__(self, makers: SandboxMakers, folder: Path) -> None:
        self._makers = makers
        self._folder = folder
        self.made: dict[str, EmptyStart] = {}

    def sandbox_for(self, thread: str) -> EmptyStart:
        if thread not in self.made:
            makers = self._makers
            made = EmptyStart(self._folder / thread, thread=makers.thread, records=makers.records)
            self.made[thread] = made
            makers.attach(thread, made)
        return self.made[thread]

    def close(self) -> None:
        for sandbox in self.made.values():
            sandbox.close()
