"""State of the supervisor's workers and of their requests (standard library only)."""

from __future__ import annotations

import os
import resource
import time

from libs.sandbox.guest.workers.kill_process_trees import SIGKILL, count_tasks, kill
from libs.sandbox.wire.frames import REQUEST, Decoder, Ending, Worker
from libs.sandbox.wire.messages import BlockRequest

__all__ = ["MOST_SESSIONS", "Child", "Job", "Sessions", "is_limited", "write_some"]

MOST_SESSIONS = 8
"""Live interpreters, unless more run blocks at once. A further session ends those that were idle longest."""
_LIMITS = 16
"""Kinds of resource limits of a process (RLIM_NLIMITS of the kernel)."""


class Job:
    """One request in the supervisor."""

    def __init__(self, stream: int, payload: bytes) -> None:
        self.stream = stream
        self.payload = payload
        self.kind, timeout = REQUEST.unpack_from(payload)
        self.deadline = time.monotonic() + timeout
        """Counted from the arrival, including the time in the queue."""
        self.arrived = time.clock_gettime(time.CLOCK_BOOTTIME)
        self.early = b""
        """Input frames that arrived while the request was queued."""
        self.ended_by: int | None = None
        """The `Ending` of a request that was ended early."""
        self.killed = False
        """Whether its processes were killed after it ignored an interrupt."""
        self.memory_kills = 0
        """The result of `memory_kills` when the request was given to a worker."""
        self.session: bytes | None = None
        """The session of a block."""
        self.ends = False
        """Whether the interpreter of the session ends."""
        if self.kind == Worker.PYTHON:
            block = BlockRequest.decode(payload[REQUEST.size :])
            self.session, self.ends = block.session, block.ends

    def ending(self, reported: int) -> int:
        """Return the `Ending`, if the worker has reported this one."""
        if self.ended_by is None:
            return reported
        if self.session is None:
            return self.ended_by
        if not self.killed and reported not in (Ending.LOST, Ending.MEMORY):
            return reported  # only the worker knows whether it has interrupted the block
        return Ending.ENDED if self.ended_by == Ending.TIMEOUT else self.ended_by


class Child:
    """A worker process, as the supervisor sees it."""

    def __init__(self, pid: int, kind: int, reader: int, writer: int) -> None:
        self.pid = pid
        self.kind = kind
        self.reader = reader
        self.writer = writer
        self.decoder = Decoder()
        self.unsent: list[bytes] = []
        self.job: Job | None = None
        self.session: bytes | None = None
        """The session of its interpreter."""
        self.made = time.monotonic()
        self.given_up = False
        """Whether the supervisor has ended this worker."""
        self.left_by: int | None = None
        """The request whose background processes it keeps."""
        self.stopped = False
        """Whether the processes of its interpreter are stopped until its next block."""
        self.refused_before: int | None = None
        """Number of refused forks when its last command left background processes. None: it left none."""

    def flush(self) -> bool:
        """Send as much as the pipe takes. Return whether everything was sent."""
        try:
            write_some(self.writer, self.unsent)
        except BrokenPipeError:
            self.unsent.clear()  # the worker is gone; its pipe reports the end
        return not self.unsent

    def dismiss(self) -> None:
        """Close the worker's input. The worker cleans up and exits."""
        self.given_up = True
        self.unsent.clear()
        try:
            null = os.open("/dev/null", os.O_WRONLY | os.O_CLOEXEC)
        except OSError:  # no free descriptor
            self.kill()
            return
        os.dup2(null, self.writer, inheritable=False)
        os.close(null)

    def kill(self) -> None:
        """Kill the worker, but not its processes."""
        self.given_up = True
        kill(self.pid, SIGKILL)

    def close(self) -> None:
        """Close both pipes."""
        os.close(self.reader)
        os.close(self.writer)


class Sessions:
    """The workers of live interpreters, the last used at the end."""

    def __init__(self) -> None:
        self._workers: dict[bytes, Child] = {}

    def add(self, session: bytes, child: Child) -> None:
        """Add a worker as the last used."""
        self._workers[session] = child

    def take(self, session: bytes) -> Child | None:
        """Remove and return the worker of a session."""
        return self._workers.pop(session, None)

    def used(self, child: Child) -> None:
        """Make a worker the last used, if it is still here."""
        session = child.session or b""
        if self._workers.get(session) is child:
            self._workers[session] = self._workers.pop(session)

    def forget(self, child: Child) -> None:
        """Remove a worker, if it is still here."""
        if self._workers.get(child.session or b"") is child:
            del self._workers[child.session or b""]

    def take_surplus(self) -> list[Child]:
        """Remove and return the idle workers that must end for a further session."""
        surplus = self.resting[: max(0, len(self._workers) + 1 - MOST_SESSIONS)]
        for child in surplus:
            self.forget(child)
        return surplus

    def take_longest_idle(self, most: int) -> list[Child]:
        """Remove and return the idle workers over a number, those that were idle longest."""
        surplus = self.resting[:-most]
        for child in surplus:
            self.forget(child)
        return surplus

    def take_largest(self, least: int = 0) -> Child | None:
        """Remove and return the idle worker with the most processes and threads, if there are `least`."""
        counts = {child: count_tasks(child.pid) for child in self.resting}
        largest = max(counts, key=counts.__getitem__, default=None)
        if largest is None or counts[largest] < least:
            return None
        self.forget(largest)
        return largest

    @property
    def resting(self) -> list[Child]:
        """The workers whose interpreters run no block, the last used at the end."""
        return [child for child in self._workers.values() if child.job is None]


def is_limited(pid: int) -> bool:
    """Return whether the resource limits of a process differ from the supervisor's, or cannot be read."""
    return _limits_of(pid) != _OWN_LIMITS


def _limits_of(pid: int) -> list[tuple[int, int]] | None:
    """Return the resource limits of a process. None: they cannot be read.

    gVisor has no /proc/<pid>/limits.
    """
    try:
        return [resource.prlimit(pid, kind) for kind in range(_LIMITS)]
    except OSError:
        return None


_OWN_LIMITS = _limits_of(0)
"""Read in the supervisor or in a new worker, before a command could change them."""


def write_some(descriptor: int, unsent: list[bytes]) -> None:
    """Write as much as a non-blocking pipe takes. The rest stays in the list.

    Raises:
        BrokenPipeError: the reader is gone.
    """
    while unsent:
        try:
            written = os.write(descriptor, unsent[0])
        except BlockingIOError:
            return
        if written < len(unsent[0]):
            unsent[0] = unsent[0][written:]
        else:
            unsent.pop(0)
