"""Gives each thread its own sandbox, on its own folder, with spares for new threads."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from libs.sandbox.docker import give_to_sandbox
from libs.sandbox.pool.by_thread import SandboxesByThread
from libs.sandbox.pool.spares import Ready
from libs.sandbox.process_owner import label_in, name_with, owner_gone, owner_label, owner_lives
from libs.sandbox.workspace import owner_of, prepare_workspace

if TYPE_CHECKING:
    from libs.sandbox.docker import DockerSandbox

MakeSandbox = Callable[..., "DockerSandbox"]

__all__ = ["SandboxPool", "Spares"]

_SPARE = ".spare-"
_LEFT_BEHIND = 600.0
"""Seconds after which the folder of a spare is removed if nobody knows whether its program lives."""


class SandboxPool:
    """Gives each thread its sandbox, on `root`/threads/<id>. Thread-safe. Starts no sandbox itself.

    Args:
        root: the common workspace. All threads can read its `data`.
        make: creates a sandbox from a folder, a thread (None: a spare) and more arguments.
        warm: number of spares that are kept ready for new threads.
    """

    def __init__(self, root: Path, make: MakeSandbox, *, warm: int) -> None:
        self._root = root.resolve()
        self._folder = self._root / "threads"
        self._make = make
        self._spares = Spares(self._folder, self._spare, warm)
        self._threads = SandboxesByThread(self._of_thread)

    def sandbox_for(self, thread: str) -> DockerSandbox:
        """Return the thread's sandbox: the same object as long as it is in use."""
        return self._threads.sandbox_for(thread)

    def close(self) -> None:
        """Close every sandbox and spare. A later call starts its sandbox again."""
        self._threads.close()
        self._spares.close()

    def _of_thread(self, thread: str, name: str) -> DockerSandbox:
        return self._make(
            self._folder / name, thread, spares=self._spares, common=partial(self._common, name)
        )

    def _spare(self, folder: Path) -> DockerSandbox:
        return self._make(folder, None, spares=None, common=partial(self._common, folder.name))

    def _common(self, name: str) -> tuple[int, int]:
        """Make the common folder, and give it and the thread's folder to the sandbox's user.

        Returns:
            Uid and gid of the thread's sandbox.
        """
        uid, _ = prepare_workspace(self._root)
        data = self._root / "data"
        if data.is_symlink():
            raise ValueError(
                f"would let threads read what {data} links to, and a command may have made the link: put a "
                "folder in its place"
            )
        for folder in (data, self._folder / name / "data"):
            if os.path.lexists(folder) and not folder.is_dir():
                raise ValueError(
                    f"cannot be used, because {folder} is not a folder: put a folder in its place"
                )
        give_to_sandbox(self._root, uid, ("data",))
        give_to_sandbox(self._root, uid, (self._folder.name, name))
        return owner_of(self._folder / name)


class Spares:
    """Sandboxes that are started before a thread needs them.

    Each has its own folder, `threads/.spare-<label of this process>.<8 hex>`. When a thread takes the spare,
    the folder is renamed. A mount stays with its folder.

    Args:
        folder: the parent of the threads' folders.
        make: creates a sandbox on a new folder.
        count: number of spares that are kept ready; 0: none.
    """

    def __init__(self, folder: Path, make: Callable[[Path], DockerSandbox], count: int) -> None:
        self._folder = folder
        self._make = make
        self._ready: Ready[DockerSandbox] = Ready(self._make_spare, _discard, count)

    def take(self, root: Path) -> DockerSandbox | None:
        """Move a spare to `root` and return it. None if none is ready or `root` exists."""
        while not os.path.lexists(root) and (spare := self._ready.take()):
            if spare.move(root):
                return spare
            _discard(spare)
        return None

    def fill(self) -> None:
        """Start missing spares in the background."""
        self._ready.fill()

    def close(self) -> None:
        """Close the spares and remove their folders."""
        self._ready.close()

    def _make_spare(self) -> DockerSandbox:
        self._sweep()
        return self._make(self._folder / f"{_SPARE}{name_with(owner_label(), secrets.token_hex(4))}")

    def _sweep(self) -> None:
        """Remove folders of spares whose program was killed."""
        with suppress(OSError):
            for folder in self._folder.glob(f"{_SPARE}*"):
                owner = label_in(folder.name.removeprefix(_SPARE))
                old = time.time() - folder.stat().st_mtime > _LEFT_BEHIND
                # The owner may be in another process namespace. Without its folder, it discards the spare.
                gone = owner_gone(owner) or (old and not owner_lives(owner))
                if gone and not any(folder.glob("*/*")):
                    shutil.rmtree(folder, ignore_errors=True)


def _discard(spare: DockerSandbox) -> None:
    spare.close()
    if spare.root.name.startswith(_SPARE):
        shutil.rmtree(spare.root, ignore_errors=True)
