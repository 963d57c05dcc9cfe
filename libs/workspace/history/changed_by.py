"""Tells which thread has changed a path, by the times of its commands."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from libs.sandbox.host import Span

__all__ = ["CUT_OFF", "by_thread"]

_TICK: Final = 20_000_000
"""Nanoseconds by which the clock of the files may be late. It ticks every 1 to 10 ms."""
_OTHERS: Final = ""
"""Stands for everybody but one thread: persons, other threads, and commands of several threads at once."""


CUT_OFF: Final = "\0"
"""Stands for a thread whose program was killed during a command, so nobody knows how long the command ran.
No thread has this id."""


def by_thread(
    paths: Iterable[str], times: Mapping[str, int], spans: Collection[Span]
) -> dict[str, list[str]]:
    """Group changed paths by the only thread whose commands ran when they were changed."""
    changes: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        at = times.get(path, 0)
        threads = {
            span.thread
            for span in spans
            if span.began - _TICK <= at and (span.ended is None or at <= span.ended + _TICK)
        }
        changes[threads.pop() if len(threads) == 1 else _OTHERS].append(path)
    return dict(changes)
