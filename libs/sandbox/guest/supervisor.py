"""The container's first process: gives requests from standard input to workers (standard library only).

The supervisor is PID 1 and has no signal handlers, so the kernel drops all signals from inside. Its memory
and descriptors cannot be read, and it cannot be traced (`hide_from_own_uid`). At the end of standard input,
the owner is gone: the supervisor exits, and the kernel ends all processes in the container.

The supervisor never opens a file that a command could have made, and never waits for a command. It keeps
every deadline itself, because a command may kill, stop or block its worker.
"""

from __future__ import annotations

import os
import select
import time

from libs.sandbox.guest.guest_stdio import Stdio
from libs.sandbox.guest.worker_pool import WorkerPool
from libs.sandbox.guest.workers.children import Child, Job, is_limited
from libs.sandbox.guest.workers.kill_process_trees import (
    SIGCONT,
    SIGKILL,
    SUBREAPERS,
    continue_trees,
    kill,
    kill_trees,
)
from libs.sandbox.guest.workers.memory_kills import memory_kills
from libs.sandbox.guest.workers.process_limit import most_processes
from libs.sandbox.guest.workers.removed_folders import workspace_is_removed
from libs.sandbox.wire.frames import ANSWER, INSIDE, PIPE, Ending, Kind, Worker, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from libs.sandbox.guest.proxy_port import Outlet

__all__ = ["Supervisor"]

_MOST_WORKERS = 64
"""Requests at once, if there are enough descriptors and processes. Further requests wait."""
_DESCRIPTORS_EACH = 4
"""Descriptors for one request: two for its worker, and two for an idle worker of another kind."""
_OTHER_DESCRIPTORS = 24
"""Descriptors for interpreters, for the proxy, and for the supervisor itself."""
_PROCESSES_PER_REQUEST = 4
"""Processes for one request: a worker, its shell, and two that its command starts."""
_OTHER_PROCESSES = 16
"""Processes for the supervisor, for idle workers and for an interpreter."""
_GRACE = 0.2
"""Seconds for a worker's report after its processes were killed. Then the worker is killed."""
_ENDED = (Ending.TIMEOUT, Ending.CANCELLED, Ending.LOST, Ending.MEMORY, Ending.ENDED)
"""Endings after which no process of the request may be left."""
_TICK = 0.2
"""Seconds between checks for workers that a command has stopped."""


class Supervisor:
    """Routes frames between the host and the workers. One thread, one poll.

    Args:
        worker: a worker for commands that is already started: see `fork_worker`.
        proxy_port: port of the proxy on loopback; 0: no proxy.
    """

    def __init__(self, worker: tuple[int, int, int] | None, proxy_port: int = 0) -> None:
        self._poll = select.poll()
        self._host = Stdio(self._poll, self._on_blocked)
        self._workers = WorkerPool(self._poll, self._descriptors, self._serve_waiting)
        self._streams: dict[int, Child] = {}
        """Request -> its worker."""
        spare = os.sysconf("SC_OPEN_MAX") - _OTHER_DESCRIPTORS
        self._most = min(_MOST_WORKERS, max(1, spare // _DESCRIPTORS_EACH))
        if processes := most_processes():
            self._most = min(self._most, max(1, (processes - _OTHER_PROCESSES) // _PROCESSES_PER_REQUEST))
        self._waiting: list[Job] = []
        self._next_tick = 0.0
        self._outlet: Outlet | None = None
        if proxy_port:
            from libs.sandbox.guest.proxy_port import Outlet

            self._outlet = Outlet(self._poll, self._host.send, proxy_port, self._workers.request_of)
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
        """Return the milliseconds until the next deadline or check."""
        times = [child.job.deadline for child in self._streams.values() if child.job]
        if times:
            times.append(self._next_tick)
        times += [job.deadline for job in self._waiting]
        times += self._workers.times()
        return max(0.0, min(times) - time.monotonic()) * 1000 + 1 if times else None

    # -- the host

    def _on_host(self) -> bool:
        """Handle received frames. Return False if the owner is gone."""
        frames = self._host.receive()
        if frames is None:
            return False
        # A request that is cancelled in the same read does not begin at all.
        unwanted = {stream for stream, kind, _, _ in frames if kind == Kind.CANCEL}
        cancelled: dict[Child, Job] = {}
        for stream, kind, payload, fd in frames:
            if stream & INSIDE:
                if self._outlet:
                    self._outlet.on_frame(stream, kind, payload)
            elif kind == Kind.OPEN and stream in unwanted:
                self._end(stream, Ending.WAITED)
            elif kind == Kind.OPEN:
                # First end cancelled requests: they may hold resources that this request needs.
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
        # While the host does not read, do not read from workers and programs either.
        self._workers.pause(blocked)
        if self._outlet:
            self._outlet.pause(blocked)

    def _descriptors(self) -> Iterable[int]:
        """Return the proxy's open descriptors."""
        return self._outlet.descriptors() if self._outlet else ()

    # -- requests

    def _dispatch(self, job: Job) -> None:
        """Give a request to a worker, or queue it."""
        child: Child | None = None
        if workspace_is_removed():
            self._end(job.stream, Ending.REMOVED)
            return
        if self._workers.room.is_being_made and (job.kind != Worker.FILE or not self._workers.idle(job.kind)):
            self._waiting.append(job)  # it needs another process
            return
        if job.session is not None:
            # Blocks of one session run one after the other.
            child = self._workers.keeper(job.session)
            if child is None and self._workers.background.end_all():
                self._end(job.stream, Ending.BUSY)  # it says what was ended
                return
            if child.job if child else self._workers.room.make():
                self._waiting.append(job)
                return
        elif not self._workers.idle(job.kind) and len(self._streams) >= self._most:
            self._waiting.append(job)
            return
        elif job.kind == Worker.RUN and self._workers.background.end_if_all_taken():
            pass  # the answer says what was ended
        elif job.kind == Worker.RUN and self._workers.room.make_if_full():
            self._waiting.append(job)
            return
        else:
            child = self._workers.take(job.kind)
            if child is None and not self._workers.background.end_all():
                if self._workers.room.make():
                    self._waiting.append(job)
                    return
                if not self._streams:
                    # No process runs here, and none can be started. Only a new sandbox helps.
                    os._exit(1)
        if child:
            self._give(child, job)
        else:
            self._end(job.stream, Ending.BUSY)

    def _give(self, child: Child, job: Job) -> None:
        if not self._streams:
            self._next_tick = time.monotonic() + _TICK
        child.job = job
        if child.stopped and not job.ends:
            child.stopped = False
            continue_trees(child.pid)
        job.memory_kills = memory_kills()
        self._streams[job.stream] = child
        self._workers.send(child, encode(job.stream, Kind.OPEN, job.payload) + job.early)

    def _on_child(self, child: Child, descriptor: int) -> None:
        if descriptor == child.writer:
            self._workers.push(child)
            return
        try:
            data = os.read(child.reader, PIPE)
        except BlockingIOError:
            return
        if not data:
            limited = child.job is not None and is_limited(child.pid)
            status = self._workers.bury(child)
            if child.job:
                self._finish(child, ANSWER.pack(_why_lost(child.job, status, limited=limited), False))
            self._workers.reap()
            self._serve_waiting()  # a block may wait for the processes of an interpreter
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
        reported, idle = ANSWER.unpack_from(payload)
        ending = job.ending(reported)
        if not SUBREAPERS and ending in _ENDED:
            self._workers.kill_orphans(job.arrived)
        # Busy: the worker could not start a process.
        busy = ending == Ending.BUSY and not self._workers.background.end_all()
        # At least one process: this worker itself has none that could end.
        if busy and job.ended_by is None and self._workers.room.make(least=1):
            self._waiting.append(job)
        else:
            answer = ANSWER.pack(ending, idle) + payload[ANSWER.size :]
            self._host.send(encode(job.stream, Kind.END, answer))
        if idle:
            self._workers.rest(child)
        else:
            self._workers.background.leave(child, job.stream)
            self._serve_waiting()
        self._workers.reap()

    def _serve_waiting(self) -> None:
        """Dispatch queued requests in their order."""
        waiting, self._waiting = self._waiting, []
        for job in waiting:
            self._dispatch(job)  # queues the request again if it must wait

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
        """End requests early. Each further call for a request uses stronger means."""
        trees: list[int] = []
        for child, job in jobs.items():
            if job.ended_by is None:
                job.ended_by = ending
                kill(child.pid, SIGCONT)
                if child.kind == Worker.FILE:
                    # The worker removes a half-written file and exits.
                    self._workers.dismiss(child)
                elif child.kind == Worker.PYTHON:
                    # The worker interrupts the block, so that the variables may survive.
                    self._workers.send(child, encode(job.stream, Kind.CANCEL, bytes([ending])))
                else:
                    trees.append(child.pid)
            elif child.kind == Worker.PYTHON and not job.killed:
                # The block ignored the interrupt.
                job.killed = True
                trees.append(child.pid)
            else:
                # Its processes are dead and the worker still does not report: it is stopped or blocked.
                child.kill()
        kill_trees(*trees)
        for job in jobs.values():
            job.deadline = time.monotonic() + _GRACE

    def _cancel(self, stream: int, running: dict[Child, Job]) -> None:
        """End a queued request, or what a finished one left running; or add a running one to `running`.

        Stream 0: stop the interpreters, and renew the idle workers and the proxy's listeners.
        """
        if stream == 0:
            self._workers.stop_sessions()
            self._workers.renew()
            if self._outlet:
                self._outlet.renew()
            return
        for job in self._waiting:
            if job.stream == stream:
                self._waiting.remove(job)
                self._end(stream, Ending.WAITED)
                return
        child = self._streams.get(stream)
        if child and child.job and child.job.ended_by is None:
            running[child] = child.job
        elif child is None:
            self._workers.background.end(stream)


def _why_lost(job: Job, status: int | None, *, limited: bool) -> int:
    """Return the ending of a request whose worker has died with this wait status.

    `limited`: whether the limits of the worker differ from the supervisor's. Only a command can change them.
    """
    if status is not None and os.WIFEXITED(status):
        return Ending.LOST if limited else Ending.FAILED
    killed = status is not None and os.WTERMSIG(status) == SIGKILL
    if killed and memory_kills() > job.memory_kills:
        return Ending.MEMORY
    return Ending.LOST
