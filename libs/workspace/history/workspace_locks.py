"""Lets one command at a time into a workspace, of all threads and programs."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Final

from libs.sandbox import RecordUnavailable

__all__ = ["WorkspaceLocks"]

_LOOK_SECONDS: Final = 0.02
"""Time between two looks whether another program has released its lock."""

_holds: ContextVar[object] = ContextVar("holds", default=None)
"""Set while the current task holds a lock: the hold."""


class WorkspaceLocks:
    """Locks of workspaces, by name. Used on the core only.

    The kernel releases the locks of a process that dies.

    Args:
        folder: holds the lock files; created at the first use. None: no other program works in these
            workspaces. A system without flock(2) keeps other programs from nothing.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._locks: dict[str, asyncio.Lock] = {}
        self._holders: dict[str, object] = {}
        """Workspace -> the hold of its lock."""
        self._files: dict[str, int] = {}
        """Workspace -> descriptor of its lock file."""

    @asynccontextmanager
    async def held(self, workspace: str) -> AsyncIterator[None]:
        """Hold the lock of a workspace. Inside the block, the same task may hold it again.

        Raises:
            RecordUnavailable: the lock file cannot be created.
        """
        # Not by the name alone: a task that began inside a block may outlive the block.
        if (hold := _holds.get()) is not None and self._holders.get(workspace) is hold:
            yield
            return
        async with self._locks.setdefault(workspace, asyncio.Lock()):
            file = await asyncio.to_thread(self._file, workspace)
            while not _taken(file):  # noqa: ASYNC110 - another process gives no event
                await asyncio.sleep(_LOOK_SECONDS)
            hold = self._holders[workspace] = object()
            token = _holds.set(hold)
            try:
                yield
            finally:
                _holds.reset(token)
                del self._holders[workspace]
                _released(file)

    def _file(self, workspace: str) -> int | None:
        if self._folder is None:
            return None
        if workspace not in self._files:
            name = hashlib.sha256(workspace.encode("utf-8", "surrogateescape")).hexdigest()[:32]
            path = self._folder / f"{name}.workspace"
            try:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._files[workspace] = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError as error:
                raise RecordUnavailable(
                    f"Nothing was run: the lock of the workspace cannot be made: {error}.",
                    hint="Make the folder writable for this program.",
                ) from error
        return self._files[workspace]


def _taken(file: int | None) -> bool:
    try:
        import fcntl
    except ImportError:  # Windows
        return True
    try:
        if file is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _released(file: int | None) -> None:
    if file is not None and os.name == "posix":
        import fcntl

        fcntl.flock(file, fcntl.LOCK_UN)
