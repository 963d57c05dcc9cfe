"""Prunes the store in the background, after captures."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import Final

from libs.persistence import CheckpointerUnavailable
from libs.workspace import SnapshotsUnavailable
from libs.workspace.prune.pruner import Pruner

__all__ = ["BackgroundPrune"]

logger = logging.getLogger(__name__)

_REST: Final = 60.0
"""Seconds between two looks at the size of the store."""
_LONG_REST: Final = 600.0
"""Seconds after a prune that could not remove enough, or that failed."""
_LEFT: Final = 0.9
"""Part of the bound that is left, so that not every capture begins a prune."""


class BackgroundPrune:
    """Belongs to one program. Used on the core only."""

    def __init__(self, pruner: Pruner, most: int) -> None:
        """Create the object. `most`: bytes of all contents."""
        self._pruner = pruner
        self._most = most
        self._next = 0.0
        self._task: asyncio.Task[None] | None = None
        self._told: set[str] = set()

    def captured(self) -> None:
        """Begin a prune if one is due and the latest look is a minute ago. Return at once."""
        if self._task is None and time.monotonic() >= self._next:
            self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        rest = _LONG_REST
        try:
            if not await self._pruner.is_due(self._most):
                rest = _REST
                return
            pruned = await self._pruner.prune(int(self._most * _LEFT))
            if pruned.size <= self._most:
                rest = _REST
            else:
                self._tell(
                    "The snapshots of workspaces are larger than SNAPSHOTS_MAX. All of them are younger than "
                    "an hour, or the latest of a thread: raise SNAPSHOTS_MAX, or delete threads."
                )
        except (SnapshotsUnavailable, CheckpointerUnavailable) as error:
            self._tell(f"Old snapshots of workspaces could not be removed: {error} {error.hint}")
        except RuntimeError:
            # When Python ends, its threads take no more calls. The next program prunes.
            if threading.main_thread().is_alive():
                raise
        finally:
            self._next = time.monotonic() + rest
            self._task = None

    def _tell(self, message: str) -> None:
        """Log a message once."""
        if message not in self._told:
            self._told.add(message)
            logger.warning(message)
