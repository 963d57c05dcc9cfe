"""Keeps started sandboxes ready, so that a caller does not wait for a start."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Generic, Protocol, TypeVar

from libs.sandbox.errors import SandboxError

__all__ = ["Ready"]

logger = logging.getLogger(__name__)

_PAUSE = 0.1
"""Seconds until a taken spare is replaced, so that the start does not slow down the caller's command."""


class _Startable(Protocol):
    @property
    def running(self) -> bool: ...
    def start(self) -> None: ...
    def outdated(self) -> bool: ...


S = TypeVar("S", bound=_Startable)


class Ready(Generic[S]):
    """Keeps spares ready. A background thread starts them, one after the other. Thread-safe.

    Args:
        make: creates a spare that is not started.
        end: closes a spare and removes what belongs to it.
        count: number of spares that are kept ready; 0: none.
        started: is called with each started spare. If it raises SandboxError, the spare is closed.
    """

    def __init__(
        self,
        make: Callable[[], S],
        end: Callable[[S], None],
        count: int,
        *,
        started: Callable[[S], None] = lambda _: None,
    ) -> None:
        self._make = make
        self._end = end
        self._count = count
        self._started = started
        self._spares: list[Future[S]] = []
        """Running spares, spares that are being started, and failed starts."""
        self._lock = threading.Lock()
        self._starter = ThreadPoolExecutor(1, "sandbox-spares")

    def __len__(self) -> int:
        """Return the number of running spares."""
        return sum(_is_running(spare) for spare in self._spares)

    def take(self, *, patient: bool = False) -> S | None:
        """Return a running spare, or None if none is ready. Dead and outdated spares are cleaned up.

        Args:
            patient: wait for a spare that is being started, if no other caller does. Two starts at once
                would each take twice as long.
        """
        while True:
            with self._lock:
                if not self._spares or not (patient or self._spares[0].done()):
                    return None
                spare = self._spares.pop(0)
            if (found := _result_of(spare)) is not None:
                if found.running and not found.outdated():
                    return found
                self._end(found)

    def fill(self, *, at_once: bool = False) -> None:
        """Start missing spares in the background.

        Args:
            at_once: start without the pause after a spare was taken.
        """
        with self._lock:
            dead = [spare for spare in self._spares if spare.done() and not _is_running(spare)]
            self._spares = [spare for spare in self._spares if spare not in dead]
            try:
                for _ in range(self._count - len(self._spares)):
                    self._spares.append(self._starter.submit(self._start, 0.0 if at_once else _PAUSE))
            except RuntimeError as error:  # no more threads are allowed
                logger.warning("no spare sandbox: %s", error)
                self._starter = ThreadPoolExecutor(1, "sandbox-spares")  # without the refused start
        for spare in dead:
            if (found := _result_of(spare)) is not None:
                self._end(found)

    def close(self) -> None:
        """Close all spares. A later `fill` starts new ones."""
        with self._lock:
            spares, self._spares = self._spares, []
            starter, self._starter = self._starter, ThreadPoolExecutor(1, "sandbox-spares")
        for spare in spares:
            if not spare.cancel() and (found := _result_of(spare)) is not None:
                self._end(found)
        starter.shutdown()

    def _start(self, pause: float) -> S:
        time.sleep(pause)
        try:
            made = self._make()
            with ExitStack() as unless_ready:
                unless_ready.callback(self._end, made)
                made.start()
                self._started(made)
                unless_ready.pop_all()
        except SandboxError as error:
            # A caller that needs a sandbox gets the error of its own start.
            logger.debug("no spare sandbox: %s", error)
            raise
        except Exception as error:
            if self._python_ends():
                logger.debug("no spare sandbox, because Python is ending: %s", error)
            else:
                logger.exception("no spare sandbox")
            raise
        return made

    def _python_ends(self) -> bool:
        """Return whether Python is ending: then thread pools refuse new work."""
        try:
            self._starter.submit(int)
        except RuntimeError:
            return True
        return False


def _is_running(spare: Future[S]) -> bool:
    return spare.done() and not spare.cancelled() and not spare.exception() and spare.result().running


def _result_of(spare: Future[S]) -> S | None:
    """Wait until a spare has started. None if the start has failed."""
    try:
        return spare.result()
    except Exception:  # noqa: BLE001 - logged where it was raised
        return None
