"""The background processes that finished commands have left (standard library only)."""

from __future__ import annotations

import time

from libs.sandbox.guest.workers.kill_process_trees import SUBREAPERS, have_zombies, kill_orphans, kill_trees
from libs.sandbox.guest.workers.process_limit import refused_forks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from libs.sandbox.guest.workers.children import Child

__all__ = ["Background"]

_COLLECT_SECONDS = 0.2
"""Longest wait in seconds until the workers have collected their killed background processes."""
_HARM_SECONDS = 2.0
_MOST_HARM = 3
"""Harm events within _HARM_SECONDS after which background processes are killed."""


class Background:
    """Keeps the background processes of finished commands running, each below its worker.

    They are killed only if they use up the process limit, or kill or stop workers again and again, because
    then no later command could run.

    Args:
        children: descriptor -> worker. The caller adds and removes workers.
    """

    def __init__(self, children: Mapping[int, Child]) -> None:
        self._children = children
        self._harm: list[float] = []
        """Times of recent harm events."""

    def leave(self, child: Child, stream: int | None = None) -> None:
        """Mark a worker whose finished command has left background processes. `stream`: that command."""
        child.refused_before = refused_forks()
        child.left_by = stream if stream is not None else child.left_by

    def end(self, stream: int) -> None:
        """Kill the background processes that a finished command has left."""
        left = [child for child in self._left() if child.left_by == stream]
        kill_trees(*(child.pid for child in left))
        for child in left:
            child.kill()  # else its next shell could be fed: see `WorkerPool.renew`

    def end_all(self) -> bool:
        """Kill all background processes. Return whether there were any.

        Takes at most the patience of `kill_trees` and _COLLECT_SECONDS.
        """
        left = self._left()
        pids = [child.pid for child in left]
        kill_trees(*pids)
        if not SUBREAPERS:
            kill_orphans(0.0, {child.pid for child in self._children.values()})
        # A killed process counts against the process limit until its worker has collected it.
        deadline = time.monotonic() + _COLLECT_SECONDS
        while have_zombies(*pids) and time.monotonic() < deadline:
            time.sleep(0.001)
        # Until these workers report that they are idle, only forks refused from now on count against them.
        for child in left:
            self.leave(child)
        return bool(left)

    def end_if_all_taken(self) -> bool:
        """Kill the background processes if they use up the process limit. Return whether they did.

        Otherwise a fork bomb in the background would leave a sandbox that can start nothing.
        """
        left = self._left()
        if not left or refused_forks() <= min(child.refused_before or 0 for child in left):
            return False
        return self.end_all()

    def harmed(self) -> None:
        """Record that a worker was killed or stopped. After several times, kill the background processes.

        Otherwise no later command could finish.
        """
        now = time.monotonic()
        self._harm = [at for at in self._harm if now - at < _HARM_SECONDS] + [now]
        if len(self._harm) >= _MOST_HARM:
            self.end_all()

    def _left(self) -> list[Child]:
        """Return the workers whose last command has left background processes."""
        return [child for child in set(self._children.values()) if child.refused_before is not None]
