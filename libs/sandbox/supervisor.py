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
from libs.sandbox.processes import SIGCONT, kill, kill_trees
from libs.sandbox.stdio import Stdio
from libs.sandbox.worker_pool import WorkerPool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Final

    from libs.sandbox.outlet import Outlet

__all__ = ["Supervisor"]

_MOST_WORKERS: Final = 64
"""Requests served at once, where each can have the descriptors that it takes. Further ones wait."""
_DESCRIPTORS_EACH: Final = 4
"""Of those that may be open: two of its worker, and room for idle workers and the proxy."""
_GRACE: Final = 0.2
"""Seconds a worker has to report after everything it ran was killed; then it is killed too."""
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
        self._workers = WorkerPool(self._poll, self._descriptors, self._serve_waiting)
        self._streams: dict[int, Child] = {}
        """Who serves which request."""
        self._most = min(_MOST_WORKERS, os.sysconf("SC_OPEN_MAX") // _DESCRIPTORS_EACH)
        self._waiting: list[Job] = []
        self._next_tick = 0.0
        self._outlet: Outlet | None = None
        if proxy_port:
            from libs.sandbox.outlet import Outlet

            self._outlet = Outlet(self._poll, self._host.send, proxy_port)
        if worker:
            self._workers.rest(self._workers.add(Worker.RUN, *worker))

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
                elif child := self._workers.at(descriptor):
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
        times += self._workers.times()
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
                self._workers.send(child, encode(stream, kind, payload, fd))
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
        self._workers.pause(blocked)
        if self._outlet:
            self._outlet.pause(blocked)

    def _descriptors(self) -> Iterable[int]:
        """What is open for the proxy."""
        return self._outlet.descriptors() if self._outlet else ()

    # -- requests

    def _dispatch(self, job: Job) -> None:
        """Give a request to a worker, or have it wait."""
        child: Child | None = None
        if job.session is not None:
            # Blocks of one session run one after the other.
            child = self._workers.keeper(job.session)
            if child and child.job:
                self._waiting.append(job)
                return
        elif not self._workers.idle(job.kind) and len(self._streams) >= self._most:
            self._waiting.append(job)
            return
        elif job.kind != Worker.RUN or not self._workers.background_took_all():
            child = self._workers.take(job.kind)
            if child is None and not self._workers.end_background() and not self._streams:
                # Nothing here uses up the processes, and this one can make none: only another sandbox helps.
                os._exit(1)
        if child:
            self._give(child, job)
        else:
            self._end(job.stream, Ending.BUSY)

    def _give(self, child: Child, job: Job) -> None:
        if not self._streams:
            self._next_tick = time.monotonic() + _TICK
        child.job = job
        self._streams[job.stream] = child
        self._workers.send(child, encode(job.stream, Kind.OPEN, job.payload) + job.early)

    def _on_child(self, child: Child, descriptor: int) -> None:
        if descriptor == child.writer:
            self._workers.push(child)
            return
        try:
            data = os.read(child.reader, CHUNK)
        except BlockingIOError:
            return
        if not data:
            self._workers.bury(child)
            if child.job:
                self._finish(child, ANSWER.pack(Ending.LOST, False))
            self._workers.reap()
            return
        for stream, kind, payload, fd in child.decoder.feed(data):
            if kind == Kind.IDLE:
                self._workers.rest(child)
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
            self._workers.rest(child)
        else:
            self._workers.leaves_running(child)
            self._serve_waiting()
        self._workers.reap()

    def _serve_waiting(self) -> None:
        """Give out what can be given out now, in the order it came."""
        waiting, self._waiting = self._waiting, []
        for job in waiting:
            self._dispatch(job)  # which puts back what must wait on

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
            self._workers.reap()
        self._workers.on_time(now)

    def _end_early(self, jobs: Mapping[Child, Job], ending: int) -> None:
        """End these; harder each time that one is found here again."""
        trees: list[int] = []
        for child, job in jobs.items():
            if job.ended_by is None:
                job.ended_by = ending
                kill(child.pid, SIGCONT)
                if child.kind == Worker.FILE:
                    # Told so, it takes away what it has half written.
                    self._workers.dismiss(child)
                elif child.kind == Worker.PYTHON:
                    # Told so, it interrupts the block, which may keep the variables.
                    self._workers.send(child, encode(job.stream, Kind.CANCEL))
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
