"""Tells which thread has changed a path, by the times of its commands."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from libs.sandbox.host import Span
from libs.workspace.ledger import Row

__all__ = ["CUT_OFF", "by_thread", "of_one_thread"]

_TICK: Final = 20_000_000
"""Nanoseconds by which the clock of the files may be late: see `file_clock`. Commands of other programs, and
sandboxes with a kernel of their own, are timed by other clocks."""
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


def of_one_thread(
    thread: str, rows: Iterable[Row], differing: Collection[str], *, cut_off: bool = False
) -> tuple[set[str], dict[str, str]]:
    """Return the paths that only one thread has changed in some captures of a workspace.

    Args:
        rows: the captures, one after the other.
        differing: the paths in question. Those that somebody else may have changed are returned with the
            reason.
        cut_off: whether the thread's are also the changes during or after a command that was cut off.
    """
    own: set[str] = set()
    foreign: set[str] = set()
    unsure: set[str] = set()
    of = {thread: own, CUT_OFF: own if cut_off else unsure}
    for row in rows:
        for who, paths in row.changes.items():
            of.get(who, foreign).update(paths)
    asked = set(differing)
    kept = dict.fromkeys(sorted(asked - own), "it was changed by somebody else")
    kept |= dict.fromkeys(sorted(asked & foreign & own), "somebody else has changed it, too")
    kept |= dict.fromkeys(
        sorted((asked & unsure) - foreign),
        "it was changed during or after a command that was cut off, perhaps by somebody else",
    )
    return own - foreign - unsure, kept
