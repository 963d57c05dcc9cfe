"""Make room for another process: an idle interpreter ends (standard library only)."""

from __future__ import annotations

import time

from libs.sandbox.guest.workers.process_limit import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from libs.sandbox.guest.workers.children import Child, Sessions

__all__ = ["Room"]

_LEAST_FREE = 4
"""Processes that a command may need. With fewer, an idle interpreter that holds most of the limit ends."""
_SECONDS = 2.5
"""Seconds until an interpreter that ends for another process is killed. Its processes end within 2 s."""


class Room:
    """Lets idle interpreters end, one at a time: the processes of one may be enough for several requests.

    Args:
        sessions: the interpreters.
        children: descriptor -> worker, of all workers that have not ended.
        dismiss: lets a worker clean up and exit.
        limit: the process limit. None: it is not known.
    """

    def __init__(
        self,
        sessions: Sessions,
        children: Mapping[int, Child],
        dismiss: Callable[[Child], None],
        limit: int | None,
    ) -> None:
        self._sessions = sessions
        self._children = children
        self._dismiss = dismiss
        self._limit = limit
        self._ending: Child | None = None
        self.kill_at: float | None = None
        """Time (time.monotonic) after which an interpreter that has not ended is killed."""

    @property
    def is_being_made(self) -> bool:
        """Whether an interpreter ends at the moment."""
        child = self._ending
        return child is not None and self._children.get(child.reader) is child

    def make(self, least: int = 0) -> bool:
        """Let the idle interpreter with the most processes and threads end. Return whether one ends.

        `least`: the fewest processes and threads of an interpreter that is worth it.
        """
        if self.is_being_made:
            return True
        self._ending = child = self._sessions.take_largest(least)
        if child:
            self.kill_at = time.monotonic() + _SECONDS
            self._dismiss(child)
        return child is not None

    def make_if_full(self) -> bool:
        """Let an idle interpreter end that holds most of the process limit, if that is nearly used up.

        Ended processes that the interpreter has not collected count, too. Return whether one ends.
        """
        if self._limit is None or not self._sessions.resting or processes() <= self._limit - _LEAST_FREE:
            return False
        return self.make(least=self._limit // 2)

    def on_time(self, now: float) -> None:
        """Kill an interpreter that has not ended in time."""
        if self.kill_at is not None and now >= self.kill_at:
            self.kill_at = None
            if self._ending and self.is_being_made:
                self._ending.kill()
