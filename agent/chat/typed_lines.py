"""Reads what a person types during a turn."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["TypedLines"]


class TypedLines:
    """Reads lines during a turn: /stop stops the turn, other lines are kept for the next prompt.

    Args:
        heard: whether a person is at the terminal. On Windows nothing is read, because event loops there
            cannot watch a terminal.
    """

    def __init__(self, *, heard: bool) -> None:
        self._heard = heard and sys.platform != "win32"
        self._begun = ""
        self.at_end = False
        """Whether the person pressed Ctrl-D: the conversation ends after this turn."""

    def taken(self) -> str:
        """Return the lines typed since the last call."""
        begun, self._begun = self._begun, ""
        return begun

    @contextmanager
    def listening(self, *, on: bool = True) -> Iterator[None]:
        """Return a context in which typed lines are read; with `on=False` one inside, for a question."""
        self._listen(on)
        try:
            yield
        finally:
            self._listen(not on)

    def _listen(self, on: bool) -> None:
        if self._heard:
            loop, terminal = asyncio.get_running_loop(), sys.stdin.fileno()
            if on:
                loop.add_reader(terminal, self._read)
            else:
                loop.remove_reader(terminal)

    def _read(self) -> None:
        data = os.read(sys.stdin.fileno(), 65_536)
        if not data:
            self.at_end = True
            self._listen(False)
        for line in data.decode("utf-8", "replace").splitlines():
            if line.strip() == "/stop":
                os.kill(os.getpid(), signal.SIGINT)
            elif line.strip():
                self._begun = f"{self._begun}\n{line.strip()}".strip()
