"""Notices that the workspace folder of a running sandbox, or another of its folders, was replaced."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from libs.sandbox.workspace import Folders, replaced

__all__ = ["FolderWatch"]

_LOOK_SECONDS = 1.0
"""Seconds between two checks, so that no command is slower. While a folder is missing, each request checks.
Also the longest wait for a check."""


class FolderWatch:
    """Compares the folders of a sandbox with the folders at its start. Used on the sandboxes' event loop.

    Args:
        look: returns the folders that are at the paths now. Called in a thread, as it may hang.
    """

    def __init__(self, look: Callable[[], Folders | None]) -> None:
        self._look = look
        self._at_start: Folders | None = None
        """None: the sandbox uses no folder, or the folders are not known."""
        self.missing: tuple[int, ...] = ()
        """Numbers of the folders besides the workspace that were gone at the last check."""
        self._looked_at = 0.0
        self._looking: asyncio.Task[Folders | None] | None = None
        """The latest check."""

    def begin(self) -> Folders | None:
        """Remember and return the folders of a sandbox that starts now. Blocks; may be called in any thread.

        None: no folder is used, or the folders are not known.
        """
        self._looking, self._looked_at, self.missing = None, time.monotonic(), ()
        try:
            self._at_start = self._look()
        except OSError:
            self._at_start = None
        return self._at_start

    @property
    def due(self) -> bool:
        """Whether the last check is a while ago, or a folder was gone."""
        return bool(self.missing) or time.monotonic() > self._looked_at + _LOOK_SECONDS

    def look_soon(self) -> None:
        """Make the next check due."""
        self._looked_at = 0.0

    def outdated(self) -> bool:
        """Return whether a folder is gone, or a new sandbox is needed: see `replaced`.

        Blocks; may be called in any thread.
        """
        try:
            now = self._look()
        except OSError:
            return False
        return replaced(self._at_start, now) or bool(_gone(self._at_start, now))

    async def replaced(self) -> bool:
        """Check the folders. Return whether the workspace is gone, or another folder is at a path.

        Another folder is also one below which other file systems are mounted than at the start, and a
        workspace that could only be read at the start and can be written now.

        A file system that does not answer counts as unchanged: the request has its own time limit.
        """
        looking = self._looking
        if looking is None or looking.done():
            looking = self._looking = asyncio.ensure_future(asyncio.to_thread(self._look))
        done, _ = await asyncio.wait({looking}, timeout=_LOOK_SECONDS)
        self.missing = ()
        if done and not looking.exception():
            self.missing = _gone(self._at_start, looking.result())
            if replaced(self._at_start, looking.result()):
                return True
        self._looked_at = time.monotonic()
        return False


def _gone(before: Folders | None, now: Folders | None) -> tuple[int, ...]:
    """Return the numbers of the folders besides the workspace that are gone."""
    if not before or not now:
        return ()
    places = enumerate(zip(before.places, now.places, strict=True))
    return tuple(number for number, (earlier, there) in places if number and earlier and not there)
