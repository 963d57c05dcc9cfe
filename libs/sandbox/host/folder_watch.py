"""Notices that the workspace folder of a running sandbox, or another of its folders, was replaced."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from libs.sandbox.workspace import Folders, replaced

__all__ = ["FolderWatch"]

_LOOK_SECONDS = 1.0
"""Seconds between two checks, so that no command is slower. Also the longest wait for a check."""


class FolderWatch:
    """Compares the folders of a sandbox with the folders at its start. Used on the sandboxes' event loop.

    Args:
        look: returns the folders that are at the paths now. Called in a thread, as it may hang.
    """

    def __init__(self, look: Callable[[], Folders | None]) -> None:
        self._look = look
        self._at_start: Folders | None = None
        """None: the sandbox uses no folder, or the folders are not known."""
        self._looked_at = 0.0
        self._looking: asyncio.Task[Folders | None] | None = None
        """The latest check."""

    def begin(self) -> tuple[int, int] | None:
        """Remember the folders of a sandbox that starts now. Blocks; may be called in any thread.

        Returns its workspace, as `folder_at` returns it. None: no folder is used, or it is not known.
        """
        self._looking, self._looked_at = None, time.monotonic()
        try:
            self._at_start = self._look()
        except OSError:
            self._at_start = None
        return self._at_start.places[0] if self._at_start else None

    @property
    def due(self) -> bool:
        """Whether the last check is a while ago."""
        return time.monotonic() > self._looked_at + _LOOK_SECONDS

    def replaced_now(self) -> bool:
        """As `replaced`, without a limit of time. Blocks; may be called in any thread."""
        try:
            return replaced(self._at_start, self._look())
        except OSError:
            return False

    async def replaced(self) -> bool:
        """Check the folders. Return whether the workspace is gone, or another folder is at a path.

        Another folder is also one below which other file systems are mounted than at the start.

        A file system that does not answer counts as unchanged: the request has its own time limit.
        """
        looking = self._looking
        if looking is None or looking.done():
            looking = self._looking = asyncio.ensure_future(asyncio.to_thread(self._look))
        done, _ = await asyncio.wait({looking}, timeout=_LOOK_SECONDS)
        if not done or looking.exception() or not replaced(self._at_start, looking.result()):
            self._looked_at = time.monotonic()
            return False
        return True
