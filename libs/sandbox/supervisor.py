"""The container's first process: has workers do what standard input asks for (standard library only).

It is PID 1 and so cannot be signalled from inside: the kernel drops every signal that it has no handler
for, hence it has none. It cannot be read or traced either (`hide_from_own_uid`). End of file on standard
input means that the owner is gone: it exits, and the kernel ends everything else in the container.

It never touches a file that a command could have prepared, never waits for a command, and keeps every
deadline itself: workers may be killed, stopped or blocked by what they run.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
from collections import deque
from typing import Any, Final

from libs.sandbox.files import FileWorker
from libs.sandbox.frames import Decoder, Frame, Kind, encode
from libs.sandbox.processes import become_subreaper, children_of, hide_from_own_uid, kill_tree
from libs.sandbox.runner import Runner

__all__ = ["main"]

_READ: Final = 256 * 1024
_SPARE: Final = {"run": 2, "file": 1}
"""Idle workers of each kind that are kept for good."""
_SURPLUS_SECONDS: Final = 10.0
"""Seconds that more than those are kept: whoever ran many commands at once may do so again."""
_MOST_WORKERS: Final = 64
"""Workers at once, busy ones and those with background children included. Further requests wait."""
_GRACE: Final = 0.2
"""Seconds a worker has to report after everything it ran was killed; then it is killed too."""
_TICK: Final = 0.2
"""Seconds between looks at workers that a command may have stopped."""


class _Job:
    """One request on its way."""

    def __init__(self, stream: int, payload: bytes) -> None:
        self.stream = stream
        self.payload = payload
        request = json.loads(payload)
        self.kind: str = request["op"]
        self.timeout: float = request["timeout"]
        self.deadline = 0.0
        self.ended_by: str | None = None


class _Worker:
    """A forked child and the socket to it."""

    def __init__(self, pid: int, kind: str, link: socket.socket) -> None:
        self.pid = pid
        self.kind = kind
        self.link = link
        self.decoder = Decoder()
        self.job: _Job | None = None
        self.resting = False
        """Whether it still waits for background children of its last command."""
        self.unsent: deque[bytes] = deque()


class Supervisor:
    """Routes frames between the host and the workers. One thread, one poll."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._decoder = Decoder()
        self._unsent: deque[bytes] = deque()
        self._blocked = False
        self._workers: dict[int, _Worker] = {}
        self._idle: dict[str, deque[_Worker]] = {"run": deque(), "file": deque()}
        self._streams: dict[int, _Worker] = {}
        self._waiting: deque[_Job] = deque()
        self._config: dict[str, Any] = {}
        self._next_tick = 0.0
        self._retire_at: float | None = None

    # -- life

    def serve(self) -> None:
        """Serve until standard input ends."""
        for descriptor in (0, 1):
            os.set_blocking(descriptor, False)
        self._poll.register(0, select.POLLIN)
        while True:
            for descriptor, event in self._poll.poll(self._patience()):
                if descriptor == 0 and not self._on_host():
                    return
                if descriptor == 1:
                    self._flush()
                elif worker := self._workers.get(descriptor):
                    self._on_worker(worker, event)
            self._on_time()

    def _patience(self) -> float | None:
        """Milliseconds until something must be looked at."""
        times = [worker.job.deadline for worker in self._streams.values() if worker.job]
        if times:
            times.append(self._next_tick)
        if self._retire_at is not None:
            times.append(self._retire_at)
        return max(0.0, min(times) - time.monotonic()) * 1000 + 1 if times else None

    def _configure(self, frame: Frame) -> None:
        self._config = json.loads(frame.payload)
        if os.getpid() == 1:
            # The image's own variables come first; nothing of the host is among them.
            self._config["environment"] = {**os.environ, **self._config["environment"]}
        os.chdir(self._config["cwd"])
        for kind, count in _SPARE.items():
            for _ in range(count):
                worker = self._fork(kind)
                if worker:
                    self._idle[kind].append(worker)
        self._send(encode(0, Kind.END, json.dumps({"pid": os.getpid()}).encode()))

    # -- the host

    def _on_host(self) -> bool:
        try:
            data = os.read(0, _READ)
        except BlockingIOError:
            return True
        if not data:
            return False
        for frame in self._decoder.feed(data):
            if frame.kind == Kind.OPEN and frame.stream == 0:
                self._configure(frame)
            elif frame.kind == Kind.OPEN:
                self._dispatch(_Job(frame.stream, frame.payload))
            elif frame.kind == Kind.CANCEL:
                self._cancel(frame.stream)
            elif worker := self._streams.get(frame.stream):
                self._to_worker(worker, frame)
        return True

    def _send(self, data: bytes) -> None:
        self._unsent.append(data)
        self._flush()

    def _flush(self) -> None:
        while self._unsent:
            data = self._unsent[0]
            try:
                written = os.write(1, data)
            except BlockingIOError:
                break
            except BrokenPipeError:
                # The owner is gone; end of file on standard input says the same.
                self._unsent.clear()
                break
            if written < len(data):
                self._unsent[0] = data[written:]
            else:
                self._unsent.popleft()
        if self._unsent:
            self._poll.register(1, select.POLLOUT)
        elif self._blocked:
            self._poll.unregister(1)
        if bool(self._unsent) != self._blocked:
            self._blocked = bool(self._unsent)
            for worker in self._workers.values():
                self._watch(worker)

    # -- workers

    def _fork(self, kind: str) -> _Worker | None:
        """A new worker, or None where the process limit is reached."""
        ours, theirs = socket.socketpair()
        try:
            pid = os.fork()
        except BlockingIOError:
            ours.close()
            theirs.close()
            return None
        if pid == 0:
            self._become_worker(kind, theirs)
        theirs.close()
        ours.setblocking(False)
        worker = _Worker(pid, kind, ours)
        self._workers[ours.fileno()] = worker
        self._watch(worker)
        return worker

    def _become_worker(self, kind: str, link: socket.socket) -> None:
        """In the fork: keep the one link, and serve it to the end of the process."""
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        keep = link.fileno()
        os.closerange(3, keep)
        os.closerange(keep + 1, max(null, keep, *self._workers) + 1)
        # A command that forks without end leaves the supervisor and the host some time this way.
        os.nice(5)
        config = self._config
        try:
            if kind == "file":
                FileWorker(link, protected=config["protected"]).serve()
            else:
                Runner(link, environment=config["environment"], spill_dir=config["spill_dir"]).serve()
        except (BrokenPipeError, ConnectionResetError):
            pass  # the supervisor is gone
        except Exception:  # noqa: BLE001 - a fork must not return into the supervisor's own loop
            sys.excepthook(*sys.exc_info())
            sys.stderr.flush()
        os._exit(0)

    def _watch(self, worker: _Worker) -> None:
        """Register what is awaited on its link. While the host reads nothing, workers are not read either."""
        wanted = select.POLLOUT if worker.unsent else 0
        if not self._blocked:
            wanted |= select.POLLIN
        self._poll.register(worker.link, wanted)

    def _dispatch(self, job: _Job) -> None:
        idle = self._idle[job.kind]
        if not idle and len(self._workers) >= _MOST_WORKERS:
            self._waiting.append(job)
            return
        # The one that has rested longest: its shell is surely ready.
        worker = idle.popleft() if idle else self._fork(job.kind)
        if worker is None:
            self._send(encode(job.stream, Kind.END, b'{"error": "busy"}'))
            return
        now = time.monotonic()
        if not self._streams:
            self._next_tick = now + _TICK
        job.deadline = now + job.timeout
        worker.job = job
        self._streams[job.stream] = worker
        self._to_worker(worker, Frame(job.stream, Kind.OPEN, job.payload))

    def _to_worker(self, worker: _Worker, frame: Frame) -> None:
        worker.unsent.append(encode(*frame))
        self._push(worker)

    def _push(self, worker: _Worker) -> None:
        while worker.unsent:
            data = worker.unsent[0]
            try:
                written = worker.link.send(data)
            except BlockingIOError:
                break
            except (BrokenPipeError, ConnectionResetError):
                worker.unsent.clear()
                break
            if written < len(data):
                worker.unsent[0] = data[written:]
            else:
                worker.unsent.popleft()
        self._watch(worker)

    def _on_worker(self, worker: _Worker, event: int) -> None:
        if event & select.POLLOUT:
            self._push(worker)
        if not event & (select.POLLIN | select.POLLHUP | select.POLLERR):
            return
        try:
            data = worker.link.recv(_READ)
        except BlockingIOError:
            return
        except ConnectionResetError:
            data = b""
        if not data:
            self._bury(worker)
            return
        for frame in worker.decoder.feed(data):
            if frame.kind == Kind.IDLE:
                self._rest(worker)
            elif worker.job and frame.stream == worker.job.stream:
                if frame.kind == Kind.END:
                    self._finish(worker, json.loads(frame.payload))
                else:
                    self._send(encode(*frame))

    def _finish(self, worker: _Worker, message: dict[str, Any]) -> None:
        job, worker.job = worker.job, None
        assert job is not None
        del self._streams[job.stream]
        self._reap()
        if job.ended_by:
            message["ended_by"] = job.ended_by
        self._send(encode(job.stream, Kind.END, json.dumps(message).encode()))
        if message.get("idle"):
            self._rest(worker)
        else:
            worker.resting = True

    def _rest(self, worker: _Worker) -> None:
        """The worker can take another request."""
        worker.resting = False
        idle = self._idle[worker.kind]
        idle.append(worker)
        for job in list(self._waiting):
            if self._idle[job.kind]:
                self._waiting.remove(job)
                self._dispatch(job)
        if len(idle) > _SPARE[worker.kind] and self._retire_at is None:
            self._retire_at = time.monotonic() + _SURPLUS_SECONDS

    def _bury(self, worker: _Worker) -> None:
        """The worker's link has ended: answer for it, and end what it has left behind."""
        del self._workers[worker.link.fileno()]
        self._poll.unregister(worker.link)
        worker.link.close()
        with contextlib.suppress(ValueError):
            self._idle[worker.kind].remove(worker)
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(worker.pid, 0)
        # What it ran belongs to this process now. Nothing else here is its child.
        known = {other.pid for other in self._workers.values()}
        for orphan in children_of(os.getpid()):
            if orphan not in known:
                kill_tree(orphan)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(orphan, signal.SIGKILL)
        if worker.job:
            self._finish(worker, {"error": "lost", "exit_code": 137})
            worker.resting = False
        if len(self._idle[worker.kind]) < _SPARE[worker.kind] and (fresh := self._fork(worker.kind)):
            self._rest(fresh)
        self._reap()

    # -- time

    def _on_time(self) -> None:
        now = time.monotonic()
        for worker in [item for item in self._streams.values() if item.job and item.job.deadline <= now]:
            job = worker.job
            if job and job.ended_by:
                # Everything below it is dead, and still it does not report: stopped, or stuck in a file.
                os.kill(worker.pid, signal.SIGKILL)
                job.deadline = now + _GRACE
            elif job:
                self._end_early(worker, job, "timeout")
        if self._streams and now >= self._next_tick:
            self._next_tick = now + _TICK
            self._reap()
        if self._retire_at is not None and now >= self._retire_at:
            self._retire_at = None
            for kind, idle in self._idle.items():
                while len(idle) > _SPARE[kind]:
                    idle.popleft().link.shutdown(socket.SHUT_WR)

    def _end_early(self, worker: _Worker, job: _Job, reason: str) -> None:
        job.ended_by = reason
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker.pid, signal.SIGCONT)
        kill_tree(worker.pid)
        job.deadline = time.monotonic() + (_GRACE if job.kind == "run" else 0)

    def _cancel(self, stream: int) -> None:
        for job in self._waiting:
            if job.stream == stream:
                self._waiting.remove(job)
                self._send(encode(stream, Kind.END, b'{"error": "cancelled"}'))
                return
        worker = self._streams.get(stream)
        if worker and worker.job and not worker.job.ended_by:
            self._end_early(worker, worker.job, "cancel")

    def _reap(self) -> None:
        """Continue workers that were stopped, and collect orphans that have ended."""
        known = {worker.pid for worker in self._workers.values()}
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
                if pid == 0:
                    return
                if os.WIFSTOPPED(status) and pid in known:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGCONT)


def _own_user() -> None:
    """Give the uid of this container a name: without one, `whoami` and `getpass` fail.

    The image's /etc/passwd and /etc/group are links to /run, the only place that can be written at start.
    """
    uid, gid = os.getuid(), os.getgid()
    lines = {"passwd": f"agent:x:{uid}:{gid}::/tmp/home:/bin/bash\n", "group": f"agent:x:{gid}:\n"}
    for name, line in lines.items():
        taken = {"agent", line.split(":")[2].strip()}
        with open(f"/etc/{name}.image") as image, open(f"/run/{name}", "w") as file:
            for entry in image:
                fields = entry.split(":")
                if not taken & {fields[0], fields[2].strip()}:
                    file.write(entry)
            file.write(line)


def main() -> None:
    """Serve standard input until it ends. Started by the image, or by LocalSandbox outside a container."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    first = os.getpid() == 1
    if first:
        _own_user()
        os.makedirs("/tmp/home/.config/matplotlib", exist_ok=True)
    else:
        become_subreaper()
    os.umask(0o022)
    hide_from_own_uid()
    Supervisor().serve()
    if not first:
        kill_tree(os.getpid())
    os._exit(0)
