"""Where the interpreter of each session ran last, so that a block is told when its variables are gone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from libs.sandbox.errors import CommandInterrupted

__all__ = ["Sessions"]

_MOST = 1_000
"""Sessions of which is known where they have run."""


class Sessions:
    """Thread-safe. A place is whatever lives as long as the interpreters in it: a channel."""

    def __init__(self) -> None:
        self._places: dict[str, object] = {}
        """Session -> place; None: one of before. The latest at the end."""
        self._lock = threading.Lock()

    def note(self, session: str, place: object) -> str:
        """What a block that runs now is to be told, where the variables of those before it are gone."""
        with self._lock:
            before = self._places.pop(session, place)
            self._places[session] = place
            while len(self._places) > _MOST:
                self._places.pop(next(iter(self._places)))
        if before is place:
            return ""
        return "[the sandbox was started anew since the last block: its variables are lost]\n"

    @contextmanager
    def going_on(self, session: str) -> Iterator[None]:
        """Around a block. One that a record knows is not run again: its variables are elsewhere."""
        try:
            yield
        except CommandInterrupted:
            self._left_behind(session)
            raise
        self._left_behind(session)

    def _left_behind(self, session: str) -> None:
        with self._lock:
            self._places.setdefault(session, None)
