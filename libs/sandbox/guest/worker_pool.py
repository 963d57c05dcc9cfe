"""Starts, keeps and removes the supervisor's workers (standard library only)."""

from __future__ import annotations

import os
import select
import time

from libs.sandbox.guest.worker import fork_worker
from libs.sandbox.guest.workers.background import Background
from libs.sandbox.guest.workers.children import MOST_SESSIONS, Child, Sessions, is_limited
from libs.sandbox.guest.workers.kill_process_trees import (
    SIGCONT,
    SIGKILL,
    SUBREAPERS,
    children_of,
    kill,
    kill_orphans,
    kill_trees,
    parent_of,
    stop_trees,
)
from libs.sandbox.guest.workers.process_limit import most_processes
from libs.sandbox.guest.workers.removed_folders import workspace_is_removed
from libs.sandbox.guest.workers.room import Room
from libs.sandbox.wire.frames import Worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["WorkerPool"]

_SPARE = {Worker.RUN: 2, Worker.FILE: 1, Worker.PYTHON: 0}
"""Idle workers of each kind that are kept."""
_FILL_SECONDS = 0.05
"""Seconds after the start until the spare workers are made."""
_RETRY_SECONDS = 1.0
"""Seconds until the spare workers are made again, after one younger than _YOUNG has ended while it had no
request. Perhaps none can start at present."""
_SURPLUS_SECONDS = 10.0
"""Seconds that surplus idle workers are kept for the next burst of commands."""
_MOST_IDLE = 24
"""Most idle workers of a kind."""
_PROCESSES_PER_IDLE = 10
"""Processes of the limit for each idle worker of a kind. A worker has up to two processes."""
_PROCESSES_PER_SESSION = 8
"""Processes of the limit for each idle interpreter. An interpreter has two processes."""
_YOUNG = 1.0
"""Age in seconds below which a killed worker counts as harm. `kill -9 -1` kills older workers, too."""


class WorkerPool:
    """The workers of one sandbox.

    The pool does not wait for running workers. Only `Background.end_all` waits, for a limited time.

    Args:
        poll: descriptors are registered here, a worker's input only while its pipe is full.
        descriptors: other open descriptors of this process, which a new worker closes.
        on_free: called when a worker can take a request.
    """

    def __init__(
        self, poll: select.poll, descriptors: Callable[[], Iterable[int]], on_free: Callable[[], None]
    ) -> None:
        self._poll = poll
        self._descriptors = descriptors
        self._on_free = on_free
        self._children: dict[int, Child] = {}
        """Descriptor -> worker, for both pipes of each."""
        self.background = Background(self._children)
        self._idle: dict[int, list[Child]] = {kind: [] for kind in _SPARE}
        limit = most_processes()
        self._most_idle = (
            _MOST_IDLE if limit is None else min(_MOST_IDLE, max(2, limit // _PROCESSES_PER_IDLE))
        )
        self._sessions = Sessions()
        self._most_sessions: int | None = None
        """Idle interpreters that are kept after more have run at once. None: no process limit is known."""
        if limit is not None:
            self._most_sessions = max(MOST_SESSIONS, limit // _PROCESSES_PER_SESSION)
        self.room = Room(self._sessions, self._children, self.dismiss, limit)
        self._paused = False
        # The first command needs one worker only. The others are made a little later.
        self._fill_at: float | None = time.monotonic() + _FILL_SECONDS
        self._retire_at: float | None = None

    def at(self, descriptor: int) -> Child | None:
        """Return the worker of a descriptor."""
        return self._children.get(descriptor)

    def request_of(self, pid: int) -> int:
        """Return the running request that a process belongs to; 0 if there is none.

        A process belongs to the worker that it descends from. What an ended command has left running keeps
        its worker, which takes no other command meanwhile.
        """
        workers = {child.pid: child for child in self._children.values()}
        while pid > 1 and pid not in workers:
            pid = parent_of(pid)
        job = workers[pid].job if pid in workers else None
        return job.stream if job else 0

    # -- who serves

    def idle(self, kind: int) -> bool:
        """Whether an idle worker of this kind exists."""
        return bool(self._idle[kind])

    def take(self, kind: int) -> Child | None:
        """Return a worker for a request, or None if no process can be started.

        A worker with other limits is killed: a command has changed them, and later ones would fail.
        """
        idle = self._idle[kind]
        while idle:
            child = idle.pop(0)  # it was idle longest: its shell is surely ready
            if not is_limited(child.pid):
                return child
            child.kill()
        return self._make(kind)

    def keeper(self, session: bytes) -> Child | None:
        """Return the worker of a session, which may be busy. None if no process can be started."""
        child = self._sessions.take(session)
        # A killed worker that is not buried yet is a zombie. The limits of a zombie can still be read.
        if child and child.job is None and (child.given_up or is_limited(child.pid)):
            child.kill()
            child = None
        if child is None:
            for oldest in self._sessions.take_surplus():
                self.dismiss(oldest)
            child = self._make(Worker.PYTHON)
            if child is None:
                return None
            child.session = session
        self._sessions.add(session, child)
        return child

    def rest(self, child: Child) -> None:
        """Mark a worker as idle. A worker that the supervisor has ended gets no other request."""
        child.refused_before = None
        idle = self._idle[child.kind]
        if child.session is None and not child.given_up:
            idle.append(child)
            if len(idle) > self._most_idle:
                self.dismiss(idle.pop(0))
        elif child.session is not None and self._most_sessions is not None:
            self._sessions.used(child)
            for oldest in self._sessions.take_longest_idle(self._most_sessions):
                self.dismiss(oldest)
        self._on_free()
        if len(idle) > _SPARE[child.kind] and self._retire_at is None:
            self._retire_at = time.monotonic() + _SURPLUS_SECONDS

    # -- made

    def add(self, kind: int, pid: int, reader: int, writer: int) -> Child:
        """Add a started worker: see `fork_worker`."""
        child = Child(pid, kind, reader, writer)
        self._children[child.reader] = self._children[child.writer] = child
        self._poll.register(child.reader, 0 if self._paused else select.POLLIN)
        return child

    def _make(self, kind: int) -> Child | None:
        made = fork_worker(kind, (*self._children, *self._descriptors()))
        return self.add(kind, *made) if made else None

    def _fill(self) -> None:
        """Start missing idle workers."""
        self._fill_at = None
        if workspace_is_removed():
            return  # no request is served any more, and no worker can start without a working directory
        for kind, count in _SPARE.items():
            for _ in range(count - len(self._idle[kind])):
                if child := self._make(kind):
                    self.rest(child)

    # -- spoken to

    def send(self, child: Child, data: bytes) -> None:
        """Send frames to a worker, now or when its pipe has room."""
        child.unsent.append(data)
        self.push(child)

    def push(self, child: Child) -> None:
        """Send as much as the worker's pipe takes."""
        if child.flush():
            self._forget(child.writer)
        else:
            self._poll.register(child.writer, select.POLLOUT)

    def pause(self, paused: bool) -> None:
        """Stop reading from workers, or continue."""
        self._paused = paused
        for child in self._children.values():
            self._poll.register(child.reader, 0 if paused else select.POLLIN)

    # -- gone

    def dismiss(self, child: Child) -> None:
        """Let a worker clean up and exit. A stopped interpreter and its processes are killed."""
        self._forget(child.writer)
        child.dismiss()
        if child.stopped:
            kill_trees(child.pid)
            child.kill()

    def bury(self, child: Child) -> int | None:
        """Remove a dead worker, kill its processes, replace it. Return its wait status, if known."""
        status = None
        for descriptor in (child.reader, child.writer):
            self._forget(descriptor)
            del self._children[descriptor]
        child.close()
        if child in self._idle[child.kind]:
            self._idle[child.kind].remove(child)
        self._sessions.forget(child)
        kill(child.pid, SIGKILL)
        try:
            _, status = os.waitpid(child.pid, 0)
        except ChildProcessError:
            pass
        if SUBREAPERS:
            # Its processes are now children of this process, beside the other workers.
            self.kill_orphans()
        young = not child.given_up and time.monotonic() - child.made < _YOUNG
        if young and not workspace_is_removed():
            self.background.harmed()
        if child.job:
            # `kill -9 -1` may have killed the idle workers too, which is not seen yet. None of them may get
            # the next command.
            for idle in self._idle.values():
                for other in idle:
                    other.kill()
                idle.clear()
        if young and not child.job:
            self._fill_at = time.monotonic() + _RETRY_SECONDS
        else:
            self._fill()
        return status

    def kill_orphans(self, since: float = 0.0) -> None:
        """Kill the adopted orphans. `since`: see `kill_process_trees.kill_orphans`."""
        kill_orphans(since, self._pids())

    def _forget(self, descriptor: int) -> None:
        try:
            self._poll.unregister(descriptor)
        except KeyError:
            pass

    # -- time

    def times(self) -> list[float]:
        """Return the times at which `on_time` has work (time.monotonic)."""
        return [at for at in (self._fill_at, self._retire_at, self.room.kill_at) if at is not None]

    def on_time(self, now: float) -> None:
        """Do the work that is due."""
        if self._fill_at is not None and now >= self._fill_at:
            self._fill()
        self.room.on_time(now)
        if self._retire_at is not None and now >= self._retire_at:
            self._retire_at = None
            for kind, idle in self._idle.items():
                while len(idle) > _SPARE[kind]:
                    self.dismiss(idle.pop(0))

    # -- between two requests

    def stop_sessions(self) -> None:
        """Stop the idle interpreters, with all their processes, until their next blocks."""
        children = set(self._children.values())
        idle = [child for child in children if child.session is not None and child.job is None]
        stop_trees(*(child.pid for child in idle))
        for child in idle:
            child.stopped = True

    def renew(self) -> None:
        """Kill the waiting shells. A command may have written to them, and they run what it wrote."""
        kill_trees(*(child.pid for idle in self._idle.values() for child in idle))

    def reap(self) -> None:
        """Continue stopped workers and collect ended orphans."""
        stopped = False
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
                if pid == 0:
                    break
                # Without subreapers, other children are orphans, which may stay stopped.
                if os.WIFSTOPPED(status) and pid in self._pids():
                    stopped = True
                    kill(pid, SIGCONT)
        except ChildProcessError:
            pass
        if stopped:
            self.background.harmed()
            # `kill -STOP -1` may also have stopped the new shell of an idle worker. That worker waits for its
            # shell and does not look stopped.
            for child in {child for child in self._children.values() if child.job is None}:
                for shell in children_of(child.pid):
                    kill(shell, SIGCONT)

    def _pids(self) -> set[int]:
        return {child.pid for child in self._children.values()}
