"""The supervisor's workers: made, kept ready, guarded, and taken away (standard library only).

What a finished command has left running is let be, unless it uses up the processes, or kills or stops workers
again and again: then no later command could be served, and it is ended.
"""

from __future__ import annotations

import posix as os
import select
import time

from libs.sandbox.children import Child
from libs.sandbox.frames import Worker
from libs.sandbox.processes import SIGCONT, SIGKILL, children_of, kill, kill_trees, refused_forks
from libs.sandbox.worker import fork_worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Final

__all__ = ["WorkerPool"]

_SPARE: Final = {Worker.RUN: 2, Worker.FILE: 1, Worker.PYTHON: 0}
"""Idle workers of each kind that are kept for good."""
_FILL_SECONDS: Final = 0.05
"""Seconds after its start in which they are made."""
_SURPLUS_SECONDS: Final = 10.0
"""Seconds that more than those are kept: whoever ran many commands at once may do so again."""
_MOST_SESSIONS: Final = 8
"""Live interpreters at once. For a further one, the one that has rested longest goes."""
_YOUNG: Final = 1.0
"""Seconds after which a worker that is killed has not been waylaid: `kill -9 -1` ends old ones, too."""
_HARM_SECONDS: Final = 2.0
_MOST_HARM: Final = 3
"""Young workers killed, or looks that found one stopped, in so many seconds: no single command does that."""


class WorkerPool:
    """The workers of one sandbox. Never waits for one that lives.

    Args:
        poll: where what is read from each is registered, and what is written to while it takes nothing.
        descriptors: what else this process has open, and a new worker closes.
        on_free: is called when a worker can take a request.
    """

    def __init__(
        self, poll: select.poll, descriptors: Callable[[], Iterable[int]], on_free: Callable[[], None]
    ) -> None:
        self._poll = poll
        self._descriptors = descriptors
        self._on_free = on_free
        self._children: dict[int, Child] = {}
        """By both descriptors."""
        self._idle: dict[int, list[Child]] = {kind: [] for kind in _SPARE}
        self._sessions: dict[bytes, Child] = {}
        """Live interpreters, the one that was used last at the end."""
        self._paused = False
        self._harm: list[float] = []
        """When workers were killed or stopped lately."""
        # One worker is enough for the first command, which is not to wait for the others.
        self._fill_at: float | None = time.monotonic() + _FILL_SECONDS
        self._retire_at: float | None = None

    def at(self, descriptor: int) -> Child | None:
        """The worker that this descriptor belongs to."""
        return self._children.get(descriptor)

    # -- who serves

    def idle(self, kind: int) -> bool:
        """Whether one waits for a request."""
        return bool(self._idle[kind])

    def take(self, kind: int) -> Child | None:
        """One that serves a request now, or None where no process can be made."""
        idle = self._idle[kind]
        # The one that has rested longest: its shell is surely ready.
        return idle.pop(0) if idle else self._make(kind)

    def keeper(self, session: bytes) -> Child | None:
        """The one that keeps the interpreter of a session; it may be busy. None as for `take`."""
        child = self._sessions.pop(session, None)
        if child is None:
            resting = [other for other in self._sessions.values() if other.job is None]
            if len(self._sessions) >= _MOST_SESSIONS and resting:
                self._sessions.pop(resting[0].session or b"")
                self.dismiss(resting[0])
            child = self._make(Worker.PYTHON)
            if child is None:
                return None
            child.session = session
        self._sessions[session] = child
        return child

    def rest(self, child: Child) -> None:
        """It can take another request."""
        child.refused_before = None
        idle = self._idle[child.kind]
        if child.session is None:
            idle.append(child)
        self._on_free()
        if len(idle) > _SPARE[child.kind] and self._retire_at is None:
            self._retire_at = time.monotonic() + _SURPLUS_SECONDS

    # -- made

    def add(self, kind: int, pid: int, reader: int, writer: int) -> Child:
        """Have one that has been made: see `fork_worker`."""
        child = Child(pid, kind, reader, writer)
        self._children[child.reader] = self._children[child.writer] = child
        self._poll.register(child.reader, 0 if self._paused else select.POLLIN)
        return child

    def _make(self, kind: int) -> Child | None:
        made = fork_worker(kind, (*self._children, *self._descriptors()))
        return self.add(kind, *made) if made else None

    def _fill(self) -> None:
        """Have as many idle workers as are kept."""
        # What workers load to serve with: those that are made from now on share it.
        import libs.sandbox.interpreter
        import libs.sandbox.runner  # noqa: F401

        self._fill_at = None
        for kind, count in _SPARE.items():
            for _ in range(count - len(self._idle[kind])):
                if child := self._make(kind):
                    self.rest(child)

    # -- spoken to

    def send(self, child: Child, data: bytes) -> None:
        """Send frames, now or when it takes them."""
        child.unsent.append(data)
        self.push(child)

    def push(self, child: Child) -> None:
        """Send what it takes."""
        if child.flush():
            self._forget(child.writer)
        else:
            self._poll.register(child.writer, select.POLLOUT)

    def pause(self, paused: bool) -> None:
        """Read nothing, or go on."""
        self._paused = paused
        for child in self._children.values():
            self._poll.register(child.reader, 0 if paused else select.POLLIN)

    # -- gone

    def dismiss(self, child: Child) -> None:
        """Have it give up what it does, take away what it has half done, and go."""
        self._forget(child.writer)
        child.dismiss()

    def bury(self, child: Child) -> None:
        """Its pipe has ended: end what it has left behind, and have others in its place."""
        for descriptor in (child.reader, child.writer):
            self._forget(descriptor)
            del self._children[descriptor]
        child.close()
        if child in self._idle[child.kind]:
            self._idle[child.kind].remove(child)
        if self._sessions.get(child.session or b"") is child:
            del self._sessions[child.session or b""]
        kill(child.pid, SIGKILL)
        try:
            os.waitpid(child.pid, 0)
        except ChildProcessError:
            pass
        # What it ran belongs to this process now. Nothing else here is its child.
        kill_trees(os.getpid(), besides={other.pid for other in self._children.values()})
        if not child.given_up and time.monotonic() - child.made < _YOUNG:
            self._harmed()
        if child.job:
            # What killed it may have killed the idle ones too (`kill -9 -1`), though their end is not seen
            # yet: none of them may get the next command.
            for idle in self._idle.values():
                for other in idle:
                    other.kill()
                idle.clear()
        self._fill()

    def _forget(self, descriptor: int) -> None:
        try:
            self._poll.unregister(descriptor)
        except KeyError:
            pass

    # -- time

    def times(self) -> list[float]:
        """When `on_time` has something to do, by the monotonic clock."""
        return [at for at in (self._fill_at, self._retire_at) if at is not None]

    def on_time(self, now: float) -> None:
        """Do what is due."""
        if self._fill_at is not None and now >= self._fill_at:
            self._fill()
        if self._retire_at is not None and now >= self._retire_at:
            self._retire_at = None
            for kind, idle in self._idle.items():
                while len(idle) > _SPARE[kind]:
                    self.dismiss(idle.pop(0))

    # -- what finished commands have left running

    def leaves_running(self, child: Child) -> None:
        """Its command has ended, and something that it started runs on."""
        child.refused_before = refused_forks()

    def end_background(self) -> bool:
        """End what finished commands have left running; whether there is such."""
        left = self._left()
        kill_trees(*(child.pid for child in left))
        return bool(left)

    def background_took_all(self) -> bool:
        """Whether it has used up the processes; then it is ended.

        Without this a fork bomb in the background would leave a sandbox in which nothing can be started.
        """
        left = self._left()
        if not left or refused_forks() <= min(child.refused_before or 0 for child in left):
            return False
        return self.end_background()

    def reap(self) -> None:
        """Continue workers that were stopped, and collect orphans that have ended."""
        stopped = False
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
                if pid == 0:
                    break
                if os.WIFSTOPPED(status):
                    stopped = True
                    kill(pid, SIGCONT)
        except ChildProcessError:
            pass
        if stopped:
            self._harmed()
            # Whoever stopped a worker (`kill -STOP -1`) may have stopped the shell that an idle one was just
            # about to start: that worker waits for it, and cannot be seen to be stopped.
            for child in {child for child in self._children.values() if child.job is None}:
                for shell in children_of(child.pid):
                    kill(shell, SIGCONT)

    def _left(self) -> list[Child]:
        """Workers whose last command has left something running."""
        return [child for child in set(self._children.values()) if child.refused_before is not None]

    def _harmed(self) -> None:
        """A worker was killed or stopped. What does so again and again, from the background, is ended.

        Without this no later command would come to its end.
        """
        now = time.monotonic()
        self._harm = [at for at in self._harm if now - at < _HARM_SECONDS] + [now]
        if len(self._harm) >= _MOST_HARM:
            self.end_background()
