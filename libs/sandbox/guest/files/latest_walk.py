"""Remembers the latest walk, so that only what has changed since is sent (standard library only).

The caller keeps what walks have found as a log: each walk adds a piece, or begins a new log. The caller sends
the log only to a worker that does not remember the latest walk, such as one that has just been started.
"""

from __future__ import annotations

import marshal
import os
from collections.abc import Collection, Iterator
from typing import Any, Final

from libs.sandbox.guest.files.tree_walk import Known, walk

__all__ = ["LatestWalk"]

_MOST_HELD: Final = 20_000
"""Paths of the latest walk that are remembered, at some 600 bytes each, which are memory of the sandbox."""
_SIZE: Final = 8
"""Bytes of the length before a piece of a log."""


class LatestWalk:
    """What the latest walk of this worker has found."""

    def __init__(self) -> None:
        self._mark = ""
        self._known: Known = {}
        self._whole = 0
        """Bytes of the first piece of the log."""
        self._more = 0
        """Bytes of the other pieces."""

    def holds(self, mark: str) -> bool:
        """Return whether this worker remembers the walk with this mark."""
        return mark == self._mark != ""

    def walk(
        self,
        mark: str,
        log: bytes,
        most: int,
        again: Collection[str],
        seconds: float,
        *,
        own_mounts: Collection[str] = (),
    ) -> tuple[dict[str, Any], bytes, dict[str, Any]]:
        """Walk the workspace: see `walk`.

        Args:
            mark: of the earlier walk, which this worker `holds`. Empty: `log` tells what the walk has found.
            log: the pieces that earlier walks have returned, or empty.

        Returns:
            The changes since the earlier walk, a piece of the log, and what the caller must know: `mark` for
            the next walk (empty: this walk is not remembered), and whether the piece `adds` to the log or
            begins a new one. An empty piece leaves the log as it is.
        """
        known = self._known if mark else _known_of(log)
        self._mark, self._known = "", {}  # what a failed walk has found is not known to the caller
        changes, found, new = walk(known, most, again, seconds, own_mounts=own_mounts)
        gone = changes["deleted"]
        adds = bool(mark) and self._more <= self._whole
        piece = b""
        if adds and (new or gone):
            piece = _piece(new, gone)
            self._more += len(piece)
        elif new or gone:
            piece = _piece(found, [])
            self._whole, self._more = len(piece), 0
        if len(found) <= _MOST_HELD:
            self._mark, self._known = os.urandom(_SIZE).hex(), found
        return changes, piece, {"mark": self._mark, "adds": adds}


def _piece(new: Known, gone: list[str]) -> bytes:
    data = marshal.dumps((new, gone))
    return len(data).to_bytes(_SIZE, "big") + data


def _known_of(log: bytes) -> Known:
    known: Known = {}
    for new, gone in _pieces(log):
        for path in gone:
            known.pop(path, None)
        known |= new
    return known


def _pieces(log: bytes) -> Iterator[tuple[Known, list[str]]]:
    rest = memoryview(log)
    while rest:
        end = _SIZE + int.from_bytes(rest[:_SIZE], "big")
        yield marshal.loads(rest[_SIZE:end])
        rest = rest[end:]
