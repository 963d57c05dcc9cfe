"""Sandboxes that have been started before anybody wants them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Generic, Protocol, TypeVar

from libs.sandbox.errors import SandboxError

__all__ = ["Ready"]

logger = logging.getLogger(__name__)

_PAUSE = 0.1
"""Seconds until filling up begins: whoever has just taken one is about to run a first command in it."""


class _Startable(Protocol):
    @property
    def running(self) -> bool: ...
    def start(self) -> None: ...


S = TypeVar("S", bound=_Startable)


class Ready(Generic[S]):
    """Keeps some ready, by a thread that starts others where they are taken. Thread-safe.

    Args:
        make: one that is not started.
        end: ends one, and removes what belongs to it.
        count: how many are kept ready; 0 for none.
        started: is told of each that was started; may raise SandboxError, and it is none then.
        before: is called before some are made.
    """

    def __init__(
        self,
        make: Callable[[], S],
        end: Callable[[S], None],
        count: int,
        *,
        started: Callable[[S], None] = lambda _: None,
        before: Callable[[], None] = lambda: None,
    ) -> None:
        self._make = make
        self._end = end
        self._count = count
        self._started = started
        self._before = before
        self._ready: list[S] = []
        self._lock = threading.Condition()
        """Notified when one is ready, and when no more are started."""
        self._awaited = False
        """Whether somebody waits for the one that is being started."""
        self._filling: threading.Thread | None = None
        self._closed = threading.Event()

    def __len__(self) -> int:
        """How many are ready."""
        return sum(each.running for each in self._ready)

    def take(self, *, patient: bool = False) -> S | None:
        """One that runs; None where none is ready. What became of those that have died is seen to.

        Args:
            patient: whether to wait for one that is being started now, where nobody else does: to start
                another beside it would take both twice as long.
        """
        while True:
            with self._lock:
                if patient and not self._ready and self._filling and not self._awaited:
                    self._awaited = True
                    self._lock.wait_for(lambda: self._ready or not self._filling)
                    self._awaited = False
                if not self._ready:
                    return None
                found = self._ready.pop(0)
            if found.running:
                return found
            self._end(found)

    def fill(self, *, at_once: bool = False) -> None:
        """Have as many ready as there are to be; returns at once.

        Args:
            at_once: whether nobody has just taken one.
        """
        with self._lock:
            if self._filling or not self._wanted():
                return
            pause = 0.0 if at_once else _PAUSE
            filling = threading.Thread(target=self._fill, args=(pause,), name="sandbox-spares", daemon=True)
            try:
                filling.start()
            except RuntimeError as error:  # the machine lets no more begin
                logger.warning("no spare sandbox: %s", error)
                return
            self._filling = filling

    def close(self) -> None:
        """End them all. A later `fill` starts others."""
        with self._lock:
            self._closed.set()
            filling = self._filling
        if filling:
            filling.join()
        with self._lock:
            ready, self._ready = self._ready, []
        for each in ready:
            self._end(each)
        self._closed.clear()

    def _fill(self, pause: float) -> None:
        try:
            self._closed.wait(pause)
            self._before()
            while self._goes_on():
                self._start_another()
        except SandboxError as error:
            # Whoever needs a sandbox is told by their own start.
            logger.debug("no spare sandbox: %s", error)
        except Exception:
            logger.exception("no spare sandbox")
        finally:
            self._over()

    def _start_another(self) -> None:
        made = self._make()
        with ExitStack() as unless_ready:
            unless_ready.callback(self._end, made)
            made.start()
            self._started(made)
            unless_ready.pop_all()
        with self._lock:
            self._ready.append(made)
            self._lock.notify_all()

    def _over(self) -> None:
        """Whoever wants one from now on starts another thread."""
        with self._lock:
            if self._filling is threading.current_thread():
                self._filling = None
                self._lock.notify_all()

    def _goes_on(self) -> bool:
        """Whether another is wanted."""
        with self._lock:
            if not self._wanted():
                self._over()
            return self._filling is not None

    def _wanted(self) -> bool:
        # Those that have rested until they were ended are none any more; `take` sees to them.
        return not self._closed.is_set() and len(self) < self._count
