"""Tells a thread at its next call that another sandbox runs it, and what is gone."""

from __future__ import annotations

from collections import OrderedDict

__all__ = ["NewSandboxNotes"]

_MOST_THREADS = 100_000
"""Number of threads that are remembered."""

_NEW = "[a new sandbox runs this: files outside of the workspace and programs in the background are gone]\n"
_FILLED = (
    "[a new sandbox runs this: the workspace is as after the latest step whose files were kept; files "
    "outside of it and programs in the background are gone]\n"
)
_OTHER_FOLDER = (
    "[a new sandbox runs this: the workspace folder was replaced by another one, so its files may differ; "
    "files outside of it and programs in the background are gone]\n"
)


class NewSandboxNotes:
    """Knows in which sandbox each thread has made its latest call. Used on the sandboxes' event loop only.

    Sandboxes are numbered in the order of their starts.
    """

    def __init__(self) -> None:
        self._latest: OrderedDict[str, int] = OrderedDict()
        """Thread -> number of the sandbox of its latest call."""

    def knows(self, thread: str) -> bool:
        """Return whether a call of the thread is known."""
        return thread in self._latest

    def called(self, thread: str, sandbox: int) -> None:
        """Remember the sandbox of a call. Calls may end in another order than they began."""
        self._latest[thread] = max(self._latest.get(thread, sandbox), sandbox)
        self._latest.move_to_end(thread)
        if len(self._latest) > _MOST_THREADS:
            self._latest.popitem(last=False)

    def note(self, thread: str, sandbox: int, *, filled: bool, other_folder: int, earlier: bool) -> str:
        """Return the note for a call. Empty if the thread's latest call was in the same sandbox.

        Args:
            sandbox: number of the sandbox that runs the call.
            filled: whether each new sandbox starts empty, and is filled from what was kept.
            other_folder: number of the latest sandbox with another workspace folder than the one before it.
            earlier: whether an earlier program has made the thread's latest call.
        """
        latest = self._latest.get(thread, sandbox)
        if not (earlier or latest < sandbox):
            return ""
        if filled:
            return _FILLED
        return _OTHER_FOLDER if latest < other_folder else _NEW
