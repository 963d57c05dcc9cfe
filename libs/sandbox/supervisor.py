"""The container's first process: has workers do what standard input asks for (standard library only).

It is PID 1 and so cannot be signalled from inside: the kernel drops every signal that it has no handler
for, hence it has none. It cannot be read or traced either (`hide_from_own_uid`). End of file on standard
input means that the owner is gone: it exits, and the kernel ends everything else in the container.

It never touches a file that a command could have prepared, never waits for a command, and keeps every
deadline itself: workers may be killed, stopped or blocked by what they run.
"""

from __future__ import annotations

import posix as os
import select
import time

from libs.sandbox.children import Child, Job
from libs.sandbox.frames import ANSWER, CHUNK, INSIDE, Ending, Kind, Worker, encode
from libs.sandbox.processes import (
    SIGCONT,
    SIGKILL,
    children_of,
    kill,
    kill_trees,
    refused_forks,
)
from libs.sandbox.stdio import Stdio
from libs.sandbox.worker import fork_worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

    from libs.sandbox.outlet import Outlet

__all__ = ["Supervisor"]

_SPARE: Final = {Worker.RUN: 2, Worker.FILE: 1, Worker.PYTHON: 0}
"""Idle workers of each kind that are kept for good."""
_FILL_SECONDS: Final = 0.05
"""Seconds after its start in which they are made."""
_SURPLUS_SECONDS: Final = 10.0
"""Seconds that more than those are kept: whoever ran many commands at once may do so again."""
_MOST_WORKERS: Final = 64
"""Requests served at once, where each can have the descriptors that it takes. Further ones wait."""
_DESCRIPTORS_EACH: Final = 4
"""Of those that may be open: two of its worker, and room for idle workers and the proxy."""
_GRACE: Final = 0.2
"""Seconds a worker has to report after everything it ran was killed; then it is killed too."""
_MOST_SESSIONS: Final = 8
"""Live interpreters at once. For a further one, the one that has rested longest goes."""
_YOUNG: Final = 1.0
"""Seconds after which a worker that is killed has not been waylaid: `kill -9 -1` ends old ones, too."""
_HARM_SECONDS: Final = 2.0
_MOST_HARM: Final = 3
"""Young workers killed, or looks that found one stopped, in so many seconds: no single command does that."""
_TICK: Final = 0.2
"""Seconds between looks at workers that a command may have stopped."""


class Supervisor:
    """Routes frames between the host and the workers. One thread, one poll.

    Args:
        worker: one for commands that has been made already: see `fork_worker`.
        proxy_port: where on loopback programs find the way out; 0: nowhere.
    """

    def __init__(self, worker: tuple[int, int, int] | None, proxy_port: int = 0) -> None:
        self._poll = select.poll()
        self._host = Stdio(self._poll, self._on_blocked)
        self._children: dict[int, Child] = {}
        """By both descriptors."""
        self._idle: dict[int, list[Child]] = {kind: [] for kind in _SPARE}
        self._streams: dict[int, Child] = {}
        self._most = min(_MOST_WORKERS, os.sysconf("SC_OPEN_MAX") // _DESCRIPTORS_EACH)
        self._waiting: list[Job] = []
        self._sessions: dict[bytes, Child] = {}
        """Live interpreters, the one that was used last at the end."""
        self._harm: list[float] = []
        """When workers were killed or stopped lately."""
        self._next_tick = 0.0
        self._retire_at: float | None = None
        # One worker is enough for the first command, which is not to wait for the others.
        self._fill_at: float | None = time.monotonic() + _FILL_SECONDS
        self._outlet: Outlet | None = None
        if proxy_port:
            from libs.sandbox.outlet import Outlet

            self._outlet = Outlet(self._poll, self._host.send, proxy_port)
        if worker:
            self._rest(self._watch(Worker.RUN, *worker))

    # -- life

    def serve(self) -> None:
        """Serve until standard input ends."""
        self._host.send(encode(0, Kind.END, ANSWER.pack(Ending.DONE, True)))
        while True:
            for descriptor, _ in self._poll.poll(self._patience()):
                if descriptor == 0 and not self._on_host():
                    return
                if descriptor == 1:
                    self._host.flush()
                elif child := self._children.get(descriptor):
                    self._on_child(child, descriptor)
                elif self._outlet:
                    self._outlet.on_ready(descriptor)
            self._on_time()

    def _patience(self) -> float | None:
        """Milliseconds until something must be looked at."""
        times = [child.job.deadline for child in self._streams.values() if child.job]
        if times:
            times.append(self._next_tick)
        times += [job.deadline for job in self._waiting]
        times += [at for at in (self._retire_at, self._fill_at) if at is not None]
        return max(0.0, min(times) - time.monotonic()) * 1000 + 1 if times else None

    # -- the host

    def _on_host(self) -> bool:
        """Take what has come; whether the owner is there."""
        frames = self._host.receive()
        if frames is None:
            return False
        # What is given up before it was read here, as while this process started, is not begun at all.
        unwanted = {stream for stream, kind, _, _ in frames if kind == Kind.CANCEL}
        cancelled: dict[Child, Job] = {}
        for stream, kind, payload, fd in frames:
            if stream & INSIDE:
                if self._outlet:
                    self._outlet.on_frame(stream, kind, payload)
            elif kind == Kind.OPEN and stream in unwanted:
                self._end(stream, Ending.CANCELLED)
            elif kind == Kind.OPEN:
                # First, what was given up before: it may hold all that this one needs.
                self._end_early(cancelled, Ending.CANCELLED)
                cancelled = {}
                self._dispatch(Job(stream, payload))
            elif kind == Kind.CANCEL:
                self._cancel(stream, cancelled)
            elif child := self._streams.get(stream):
                self._to_child(child, encode(stream, kind, payload, fd))
            else:
                for job in self._waiting:
                    if job.stream == stream:
                        job.early += encode(stream, kind, payload, fd)
        self._end_early(cancelled, Ending.CANCELLED)
        return True

    def _end(self, stream: int, ending: int) -> None:
        self._host.send(encode(stream, Kind.END, ANSWER.pack(ending, False)))

    def _on_blocked(self, blocked: bool) -> None:
        # While the host reads nothing, nobody is read either: they wait in turn.
        for child in self._children.values():
            self._poll.register(child.reader, 0 if blocked else select.POLLIN)
        if self._outlet:
            self._outlet.pause(blocked)

    # -- workers

    def _fork(self, kind: int) -> Child | None:
        """A new worker, or None where no process can be made."""
        others = (*self._children, *(self._outlet.descriptors() if self._outlet else ()))
        made = fork_worker(kind, others)
        return self._watch(kind, *made) if made else None

    def _watch(self, kind: int, pid: int, reader: int, writer: int) -> Child:
        child = Child(pid, kind, reader, writer)
        self._children[child.reader] = self._children[child.writer] = child
        self._poll.register(child.reader, 0 if self._host.blocked else select.POLLIN)
        return child

    def _fill(self) -> None:
        """Have as many idle workers as are kept."""
        # What workers load to serve with: those that are made from now on share it.
        import libs.sandbox.interpreter
        import libs.sandbox.runner  # noqa: F401

        self._fill_at = None
        for kind, count in _SPARE.items():
            for _ in range(count - len(self._idle[kind])):
                if child := self._fork(kind):
                    self._rest(child)

    def _dispatch(self, job: Job) -> None:
        if job.session is not None:
            self._dispatch_block(job, job.session)
            return
        idle = self._idle[job.kind]
        if not idle and len(self._streams) >= self._most:
            self._waiting.append(job)
            return
        if job.kind == Worker.RUN and self._background_took_all():
            self._end(job.stream, Ending.BUSY)
            return
        # The one that has rested longest: its shell is surely ready.
        child = idle.pop(0) if idle else self._fork(job.kind)
        if child is None:
            resting = self._resting()
            if not self._streams and not resting:
                # Nothing here uses up the processes, and this one can make none: only another sandbox helps.
                os._exit(1)
            kill_trees(*(other.pid for other in resting))
            self._end(job.stream, Ending.BUSY)
            return
        self._give(child, job)

    def _dispatch_block(self, job: Job, session: bytes) -> None:
        """Give a block to the interpreter of its session; blocks of one session run one after the other."""
        child = self._sessions.pop(session, None)
        if child is None:
            resting = [other for other in self._sessions.values() if other.job is None]
            if len(self._sessions) >= _MOST_SESSIONS and resting:
                self._sessions.pop(resting[0].session or b"")
                self._dismiss(resting[0])
            child = self._fork(job.kind)
            if child is None:
                self._end(job.stream, Ending.BUSY)
                return
            child.session = session
        self._sessions[session] = child
        if child.job:
            self._waiting.append(job)
        else:
            self._give(child, job)

    def _give(self, child: Child, job: Job) -> None:
        if not self._streams:
            self._next_tick = time.monotonic() + _TICK
        child.job = job
        self._streams[job.stream] = child
        self._to_child(child, encode(job.stream, Kind.OPEN, job.payload) + job.early)

    def _to_child(self, child: Child, data: bytes) -> None:
        child.unsent.append(data)
        self._push(child)

    def _push(self, child: Child) -> None:
        if child.flush():
            _forget(self._poll, child.writer)
        else:
            self._poll.register(child.writer, select.POLLOUT)

    def _on_child(self, child: Child, descriptor: int) -> None:
        if descriptor == child.writer:
            self._push(child)
            return
        try:
            data = os.read(child.reader, CHUNK)
        except BlockingIOError:
            return
        if not data:
            self._bury(child)
            return
        for stream, kind, payload, fd in child.decoder.feed(data):
            if kind == Kind.IDLE:
                self._rest(child)
            elif child.job and stream == child.job.stream:
                if kind == Kind.END:
                    self._finish(child, payload)
                else:
                    self._host.send(encode(stream, kind, payload, fd))

    def _finish(self, child: Child, payload: bytes) -> None:
        job, child.job = child.job, None
        assert job is not None
        del self._streams[job.stream]
        ending, idle = ANSWER.unpack_from(payload)
        if job.ended_by is not None:
            ending = job.ended_by
        self._host.send(encode(job.stream, Kind.END, ANSWER.pack(ending, idle) + payload[ANSWER.size :]))
        if idle:
            self._rest(child)
        else:
            child.refused_before = refused_forks()
            self._serve_waiting()
        self._reap()

    def _resting(self) -> list[Child]:
        """Workers whose last command has left something running."""
        return [child for child in set(self._children.values()) if child.refused_before is not None]

    def _background_took_all(self) -> bool:
        """Whether what finished commands have left running has used up the processes; then it is ended.

        Without this a fork bomb in the background would leave a sandbox in which nothing can be started.
        """
        resting = self._resting()
        if not resting or refused_forks() <= min(child.refused_before or 0 for child in resting):
            return False
        kill_trees(*(child.pid for child in resting))
        return True

    def _harmed(self) -> None:
        """Something kills or stops workers. What does so again and again, from the background, is ended.

        Without this no later command would come to its end.
        """
        now = time.monotonic()
        self._harm = [at for at in self._harm if now - at < _HARM_SECONDS] + [now]
        if len(self._harm) >= _MOST_HARM:
            kill_trees(*(child.pid for child in self._resting()))

    def _rest(self, child: Child) -> None:
        """The worker can take another request."""
        child.refused_before = None
        idle = self._idle[child.kind]
        if child.session is None:
            idle.append(child)
        self._serve_waiting()
        if len(idle) > _SPARE[child.kind] and self._retire_at is None:
            self._retire_at = time.monotonic() + _SURPLUS_SECONDS

    def _serve_waiting(self) -> None:
        """Give out what can be given out now, in the order it came."""
        waiting, self._waiting = self._waiting, []
        for job in waiting:
            self._dispatch(job)  # which puts back what must wait on

    def _bury(self, child: Child) -> None:
        """The worker's pipe has ended: answer for it, and end what it has left behind."""
        for descriptor in (child.reader, child.writer):
            _forget(self._poll, descriptor)
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
        if child.job:
            self._finish(child, ANSWER.pack(Ending.LOST, False))
        self._reap()

    # -- time

    def _on_time(self) -> None:
        now = time.monotonic()
        for late in [item for item in self._waiting if item.deadline <= now]:
            self._waiting.remove(late)
            self._end(late.stream, Ending.WAITED)
        jobs = {child: child.job for child in self._streams.values() if child.job}
        self._end_early({child: job for child, job in jobs.items() if job.deadline <= now}, Ending.TIMEOUT)
        if self._streams and now >= self._next_tick:
            self._next_tick = now + _TICK
            self._reap()
        if self._fill_at is not None and now >= self._fill_at:
            self._fill()
        if self._retire_at is not None and now >= self._retire_at:
            self._retire_at = None
            for kind, idle in self._idle.items():
                while len(idle) > _SPARE[kind]:
                    self._dismiss(idle.pop(0))

    def _end_early(self, jobs: Mapping[Child, Job], ending: int) -> None:
        """End these; harder each time that one is found here again."""
        trees: list[int] = []
        for child, job in jobs.items():
            if job.ended_by is None:
                job.ended_by = ending
                kill(child.pid, SIGCONT)
                if child.kind == Worker.FILE:
                    # Told so, it takes away what it has half written.
                    self._dismiss(child)
                elif child.kind == Worker.PYTHON:
                    # Told so, it interrupts the block, which may keep the variables.
                    self._to_child(child, encode(job.stream, Kind.CANCEL))
                else:
                    trees.append(child.pid)
            elif child.kind == Worker.PYTHON and not job.killed:
                # The block did not heed the interrupt.
                job.killed = True
                trees.append(child.pid)
            else:
                # Everything below it is dead, and still it does not report: stopped, or stuck in a file.
                child.kill()
        kill_trees(*trees)
        for job in jobs.values():
            job.deadline = time.monotonic() + _GRACE

    def _dismiss(self, child: Child) -> None:
        _forget(self._poll, child.writer)
        child.dismiss()

    def _cancel(self, stream: int, running: dict[Child, Job]) -> None:
        """End a request that waits; what runs for one is added to `running`."""
        for job in self._waiting:
            if job.stream == stream:
                self._waiting.remove(job)
                self._end(stream, Ending.CANCELLED)
                return
        child = self._streams.get(stream)
        if child and child.job and child.job.ended_by is None:
            running[child] = child.job

    def _reap(self) -> None:
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


def _forget(poll: select.poll, descriptor: int) -> None:
    try:
        poll.unregister(descriptor)
    except KeyError:
        pass
