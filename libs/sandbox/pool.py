"""Each thread its own sandbox, on a folder of its own, with spares ready for new ones."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from libs.sandbox.handover import Handover
from libs.sandbox.ready import Ready
from libs.sandbox.workspace import is_root, prepare_workspace, thread_folder

if TYPE_CHECKING:
    from libs.sandbox.container import DockerSandbox

MakeSandbox = Callable[..., "DockerSandbox"]

__all__ = ["SandboxPool", "Spares"]

_SPARE = ".spare-"
_LEFT_BEHIND = 600.0
"""Seconds after which a spare's folder that no program holds any more is taken for a leftover."""
_MOST_KEPT = 1_000
"""Sandboxes that are remembered though they are stopped, with what their interpreters are to be told."""
_ENDED_AT_ONCE = 32
"""Sandboxes that are ended at once."""


class SandboxPool:
    """Gives each thread its sandbox, on `root`/threads/<id>. Thread-safe; starts nothing itself.

    Args:
        root: the workspace that the threads have in common; its `data` is theirs to read.
        make: a sandbox on a folder, for the thread of this name (None: a spare), with what it is to be made
            with besides.
        warm: spares that are kept ready for new threads.
    """

    def __init__(self, root: Path, make: MakeSandbox, *, warm: int) -> None:
        self._root = root.resolve()
        self._folder = self._root / "threads"
        self._make = make
        self._spares = Spares(self._folder, self._spare, warm)
        self._sandboxes: WeakValueDictionary[str, DockerSandbox] = WeakValueDictionary()
        """Each that runs, is held by a caller, or was asked for lately: never two of a thread."""
        self._lately: OrderedDict[str, DockerSandbox] = OrderedDict()
        self._handover: Handover | None = None
        """Of what threads have in common."""
        self._lock = threading.Lock()
        """Never held for long: `sandbox_for` is asked on an event loop."""
        self._preparing = threading.Lock()

    def sandbox_for(self, thread: str) -> DockerSandbox:
        """The thread's sandbox; the same one for as long as the pool lives."""
        name = thread_folder(thread)
        with self._lock:
            found = self._sandboxes.get(name)
            if found is None:
                folder, common = self._folder / name, partial(self._common, name)
                found = self._make(folder, thread, spares=self._spares, common=common)
                self._sandboxes[name] = found
            self._lately[name] = found
            self._lately.move_to_end(name)
            if len(self._lately) > _MOST_KEPT:
                self._lately.popitem(last=False)
            return found

    def close(self) -> None:
        """End every sandbox, the spares too. A later call starts what it needs again."""
        with self._lock:
            sandboxes = list(self._sandboxes.values())
            self._sandboxes.clear()
            self._lately.clear()
        if sandboxes:
            # Each waits until the Engine has removed it, which takes long where that is busy or hangs.
            with ThreadPoolExecutor(min(_ENDED_AT_ONCE, len(sandboxes))) as threads:
                list(threads.map(lambda sandbox: sandbox.close(), sandboxes))
        self._spares.close()
        with self._preparing:
            handover, self._handover = self._handover, None
        if handover:
            handover.close()

    def _spare(self, folder: Path) -> DockerSandbox:
        return self._make(folder, None, spares=None, common=partial(self._common, folder.name))

    def _common(self, name: str, uid: int) -> Handover | None:
        """Make the folder that all have in common; what hands over this thread's folder, and that one.

        Each thread's is apart: it would have to look through all the names that another's commands make.
        """
        with self._preparing:
            prepare_workspace(self._root)
            if (self._root / "data").is_symlink():
                raise ValueError(
                    f"would let threads read what {self._root / 'data'} links to, and a command may have "
                    "made the link: put a folder in its place"
                )
            if not is_root() or self._root.stat().st_uid != 0:
                return None
            if self._handover is None:
                self._handover = Handover(self._root, uid, but=frozenset({self._folder.name}))
            common = self._handover
        return Handover(self._root, uid, below=(self._folder.name, name), besides=common)


class Spares:
    """Sandboxes that have been started before anybody wants them.

    Each has a folder of its own, `threads/.spare-<8 hex>`, which is renamed to the thread's when it is taken:
    a mount stays with its folder.

    Args:
        folder: where the folders of threads are.
        make: a sandbox on a new folder.
        count: how many are kept ready; 0 for none.
    """

    def __init__(self, folder: Path, make: Callable[[Path], DockerSandbox], count: int) -> None:
        self._folder = folder
        self._ready: Ready[DockerSandbox] = Ready(
            lambda: make(folder / f"{_SPARE}{secrets.token_hex(4)}"),
            self._discard,
            count,
            started=self._keep,
            before=self._sweep,
        )
        self._claims: dict[DockerSandbox, int] = {}
        """A lock on the folder of each, which goes with this program: see `_sweep`."""

    def take(self, root: Path) -> DockerSandbox | None:
        """A spare that now lives on `root`; None where none is ready, or there is such a folder already."""
        while not os.path.lexists(root) and (spare := self._ready.take()):
            if spare.move(root):
                if spare._handover:
                    spare._handover.moved(root.name)
                self._release(spare)
                return spare
            self._discard(spare)
        return None

    def fill(self) -> None:
        """Have as many ready as there are to be; returns at once."""
        self._ready.fill()

    def close(self) -> None:
        """End them, and remove their folders."""
        self._ready.close()

    def _keep(self, spare: DockerSandbox) -> None:
        with contextlib.suppress(OSError):  # not every file system has such locks
            self._claims[spare] = _claim(spare.root)

    def _discard(self, spare: DockerSandbox) -> None:
        spare.close()
        self._release(spare)
        if spare.root.name.startswith(_SPARE):
            shutil.rmtree(spare.root, ignore_errors=True)

    def _release(self, spare: DockerSandbox) -> None:
        claim = self._claims.pop(spare, None)
        if claim is not None:
            os.close(claim)

    def _sweep(self) -> None:
        """Remove the folders that spares of killed programs have left."""
        with contextlib.suppress(OSError):
            for folder in self._folder.glob(f"{_SPARE}*"):
                if time.time() - folder.stat().st_mtime > _LEFT_BEHIND and not any(folder.glob("*/*")):
                    with contextlib.suppress(BlockingIOError):  # a spare that waits
                        claim = _claim(folder)
                        shutil.rmtree(folder, ignore_errors=True)
                        os.close(claim)


def _claim(folder: Path) -> int:
    """Lock a folder, as long as the descriptor that comes back is open.

    Raises:
        BlockingIOError: somebody has it.
        OSError: it cannot be opened, or locked.
    """
    claim = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(claim)
        raise
    return claim
