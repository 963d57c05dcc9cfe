"""The place in which a thread works: a sandbox, or the store of a one-tool thread."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from libs.sandbox import Tree
from libs.sandbox.host import CommandRecords, Turns

__all__ = ["Workplace"]


class Workplace(Tree, Protocol):
    """A sandbox, or another place with the files of a thread. Used on the core only."""

    @property
    def turns(self) -> Turns:
        """Lets commands and captures take turns."""
        ...

    @property
    def records(self) -> CommandRecords | None:
        """The log of the commands."""
        ...

    @property
    def root(self) -> Path:
        """The folder that all threads share, if they share one."""
        ...

    @property
    def running(self) -> bool:
        """Whether a capture can be made without starting something."""
        ...

    def without_network(self) -> AbstractContextManager[set[str]]:
        """Refuse all network to what runs here, for the length of the block.

        Gives a set that gets the hosts that were refused although the gateway allows them.
        """
        ...

    async def aend_programs(self, thread: str) -> None:
        """End background programs and live interpreters of a thread."""
        ...

    def has_background(self, thread: str) -> bool:
        """Return whether commands of a thread may have left something running."""
        ...
