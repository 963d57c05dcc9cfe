"""Keeps one sandbox object for each thread."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Generic, TypeVar
from weakref import WeakValueDictionary

from libs.sandbox.host import ChannelSandbox, ThreadNotes
from libs.sandbox.workspace import thread_folder

__all__ = ["SandboxesByThread"]

_MOST_KEPT: Final = 1_000
"""Sandbox objects that are kept although stopped."""
_MOST_NOTED: Final = 10_000
"""Threads whose notes are kept for their next sandbox object. Notes take about 1 kB."""
_ENDED_AT_ONCE: Final = 32
"""Sandboxes that are closed at the same time."""

S = TypeVar("S", bound=ChannelSandbox)
V = TypeVar("V")


class SandboxesByThread(Generic[S]):
    """Thread-safe. Starts no sandbox.

    Args:
        make: creates the sandbox of a thread. Called with the thread and its folder name.
    """

    def __init__(self, make: Callable[[str, str], S]) -> None:
        self._make = make
        self._sandboxes: WeakValueDictionary[str, S] = WeakValueDictionary()
        """Every sandbox object that is still in use, so that no thread gets two."""
        self._lately: OrderedDict[str, S] = OrderedDict()
        self._notes: OrderedDict[str, ThreadNotes] = OrderedDict()
        """Folder name -> notes, which outlive the sandbox object and `close`."""
        self._lock = threading.Lock()
        """Held only briefly, because `sandbox_for` is called on an event loop."""

    def sandbox_for(self, thread: str) -> S:
        """Return the thread's sandbox: the same object as long as it is in use."""
        name = thread_folder(thread)
        with self._lock:
            found = self._sandboxes.get(name)
            if found is None:
                found = self._sandboxes[name] = self._make(thread, name)
                found.notes = self._notes.get(name, found.notes)
            _keep(self._lately, name, found, _MOST_KEPT)
            _keep(self._notes, name, found.notes, _MOST_NOTED)
            return found

    def close(self) -> None:
        """Close every sandbox. A later call starts its sandbox again."""
        with self._lock:
            sandboxes = list(self._sandboxes.values())
            self._sandboxes.clear()
            self._lately.clear()
        if sandboxes:
            # Each close waits for the Engine, which may be slow.
            with ThreadPoolExecutor(min(_ENDED_AT_ONCE, len(sandboxes))) as threads:
                list(threads.map(lambda sandbox: sandbox.close(), sandboxes))


def _keep(kept: OrderedDict[str, V], name: str, value: V, most: int) -> None:
    """Keep a value as the latest one of at most `most`."""
    kept[name] = value
    kept.move_to_end(name)
    if len(kept) > most:
        kept.popitem(last=False)
