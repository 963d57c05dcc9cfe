"""What a person types while the agent works."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["TypedMeanwhile"]


class TypedMeanwhile:
    """Reads the lines of a terminal during a turn: /stop stops it, others are for later.

    Args:
        heard: whether a person is at the terminal. Windows, whose loops do not watch one, is never heard.
    """

    def __init__(self, *, heard: bool) -> None:
        self._heard = heard and sys.platform != "win32"
        self._begun = ""
        self.at_end = False
        """Whether Ctrl-D has come: the end, once this turn has ended."""

    def taken(self) -> str:
        """What was typed since the last call, as one line."""
        begun, self._begun = self._begun, ""
        return begun

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Read, for the length of the block."""
        if not self._heard:
            yield
            return
        self._listen()
        try:
            yield
        finally:
            self._leave()

    @contextmanager
    def deaf(self) -> Iterator[None]:
        """Leave the terminal, inside `listening`, to who asks a question there."""
        if not self._heard:
            yield
            return
        self._leave()
        try:
            yield
        finally:
            self._listen()

    def _listen(self) -> None:
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._read)

    def _leave(self) -> None:
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())

    def _read(self) -> None:
        data = os.read(sys.stdin.fileno(), 65_536)
        if not data:
            self.at_end = True
            self._leave()
        for line in data.decode("utf-8", "replace").splitlines():
            if line.strip() == "/stop":
                os.kill(os.getpid(), signal.SIGINT)
            elif line.strip():
                self._begun = f"{self._begun} {line.strip()}".strip()
