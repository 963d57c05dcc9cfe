"""End sandboxes that have rested for a while. Their disk stays; the next call starts them again."""

from __future__ import annotations

import threading
import time
import weakref
from typing import Protocol

__all__ = ["rest_after", "rests_no_more"]

_LOOKS = 4
"""Looks in the time after which a sandbox is to rest: it rests at most that part of it too late."""
_SHORTEST = 0.05


class _Resting(Protocol):
    def rest(self, seconds: float) -> bool:
        """End it, where nothing has been asked of it for `seconds`; whether it has ended."""
        ...


_lock = threading.Lock()
_watched: weakref.WeakKeyDictionary[_Resting, tuple[float, float]] = weakref.WeakKeyDictionary()
"""Sandbox -> seconds it may rest, and when to look at it."""
_changed = threading.Event()
_thread: threading.Thread | None = None


def rest_after(sandbox: _Resting, seconds: float) -> None:
    """End `sandbox` once it has rested for `seconds`. To be said again after each start."""
    global _thread  # noqa: PLW0603 - one thread for all of them: there may be hundreds
    with _lock:
        _watched[sandbox] = (seconds, time.monotonic() + _every(seconds))
        if _thread is None:
            _thread = threading.Thread(target=_watch, name="sandbox-idle", daemon=True)
            _thread.start()
    _changed.set()


def rests_no_more(sandbox: _Resting) -> None:
    """Look after it no longer: it was ended. Where none is left, neither is the thread."""
    with _lock:
        if _watched.pop(sandbox, None):
            _changed.set()


def _every(seconds: float) -> float:
    return max(_SHORTEST, seconds / _LOOKS)


def _watch() -> None:
    """Look at each in its time, until none is left."""
    global _thread  # noqa: PLW0603
    while True:
        _changed.clear()
        with _lock:
            if not _watched:
                _thread = None
                return
            now = time.monotonic()
            due = [(sandbox, seconds) for sandbox, (seconds, at) in _watched.items() if at <= now]
            # The last of them may be gone in this moment: nothing here keeps it alive.
            wait = min((at for _, at in _watched.values()), default=now) - now
        for sandbox, seconds in due:
            ended = sandbox.rest(seconds)
            with _lock:
                if ended:
                    _watched.pop(sandbox, None)
                else:
                    _watched[sandbox] = (seconds, time.monotonic() + _every(seconds))
        if due:
            del sandbox, due  # nothing here keeps one alive
            continue
        _changed.wait(max(0.0, wait))
