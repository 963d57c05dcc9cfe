"""Ends what a thread runs in this program after another program has taken the thread back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final
from weakref import WeakValueDictionary

from libs.persistence import CheckpointerUnavailable
from libs.sandbox import SandboxError
from libs.sandbox.host import core, on_core
from libs.workspace.history.workplace import Workplace
from libs.workspace.ledger import ThreadPlaces

__all__ = ["TakenBack"]

_WATCH_SECONDS: Final = 2.0
"""Longest time until a background program ends after another program has taken its thread back."""


class TakenBack:
    """Compares how often a thread has gone back with what this program knows of the thread."""

    def __init__(self, places: ThreadPlaces, sandbox_of: Callable[[str], Workplace]) -> None:
        self._places = places
        self._sandbox_of = sandbox_of
        self._moves: dict[str, int] = {}
        """Thread -> how often it had gone back when this program last ran something in it."""
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Thread -> held while its programs end."""
        self._watched: set[str] = set()
        """Threads whose background programs are watched."""

    @on_core
    async def end_old_programs(self, thread: str) -> None:
        """End the programs and interpreters of a thread that another program has taken back meanwhile.

        Raises:
            CheckpointerUnavailable: the database cannot be used.
        """
        moves = await self._places.moves(thread)
        if self._moves.setdefault(thread, moves) == moves:
            return
        async with self._locks.setdefault(thread, asyncio.Lock()):
            if self._moves[thread] != moves:  # another command of the thread may have ended them
                await self._sandbox_of(thread).aend_programs(thread)
                self._moves[thread] = moves

    async def moved_here(self, thread: str) -> None:
        """Note that this program has taken a thread back, and has ended its programs."""
        self._moves[thread] = await self._places.moves(thread)

    @on_core
    async def watch(self, thread: str) -> None:
        """End what a step left running soon after another program has taken the thread back.

        Call this after each step.
        """
        sandbox = self._sandbox_of(thread)

        async def watch() -> None:
            try:
                while sandbox.has_background(thread):
                    await asyncio.sleep(_WATCH_SECONDS)
                    with suppress(CheckpointerUnavailable, SandboxError):
                        await self.end_old_programs(thread)
            finally:
                self._watched.discard(thread)

        if thread not in self._watched and sandbox.has_background(thread):
            self._watched.add(thread)
            core().spawn(watch())
