"""What the workers for commands and for Python blocks have in common (standard library only)."""

from __future__ import annotations

# The module `signal` takes 4 ms to import.
import _signal  # type: ignore[import-not-found]
import os
import select
import time

from libs.sandbox.guest.workers.capture import Captured, read_some
from libs.sandbox.guest.workers.frame_pipes import Link
from libs.sandbox.guest.workers.kill_process_trees import become_subreaper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["ProcessWorker"]

_GATHER = 0.002
"""Seconds that output waits for the end of its command, so that both are sent in one write."""


class ProcessWorker:
    """Collects the output of its processes, and adopts each of their orphans.

    Args:
        pipes: output -> the pipe that the processes write it to. Reading does not block.
    """

    def __init__(self, link: Link, pipes: Mapping[int, tuple[int, int]]) -> None:
        self._link = link
        self._pipes = pipes
        self._spill_dir = f"{os.getcwd()}/.output"
        self._wake, wake_writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        # The end of a child wakes up the poll through this pipe. The handler itself does nothing.
        _signal.signal(_signal.SIGCHLD, lambda *_: None)
        _signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
        become_subreaper()

    def _collect(
        self, stream: int, outputs: Mapping[int, Captured], live: bool, others: Mapping[int, int]
    ) -> Iterator[set[int]]:
        """Collect and send output. Yield the ready ones of `others`, and `_wake` if a child has ended.

        Args:
            others: more descriptors -> their events for the poll.
        """
        readers = {self._pipes[fd][0]: captured for fd, captured in outputs.items()}
        poll = select.poll()
        for descriptor in (*readers, self._wake):
            poll.register(descriptor, select.POLLIN)
        for descriptor, events in others.items():
            poll.register(descriptor, events)
        pending_since: float | None = None
        while True:
            wait = (
                None if pending_since is None else max(0.0, pending_since + _GATHER - time.monotonic()) * 1000
            )
            found = dict(poll.poll(wait))
            ready = found.keys()
            for descriptor in ready & readers.keys():
                if data := read_some(descriptor):
                    readers[descriptor].add(data, live)
                    pending_since = pending_since or time.monotonic()
            if self._wake in ready:
                os.read(self._wake, 4096)
            yield ready - readers.keys()
            for descriptor in others:
                if found.get(descriptor) == select.POLLHUP:
                    poll.unregister(descriptor)  # nothing comes any more, and the poll would not wait
            if pending_since is not None and time.monotonic() - pending_since >= _GATHER:
                pending_since = None
                if sent := b"".join(captured.frames(stream) for captured in outputs.values()):
                    self._link.send(sent)

    def _reap(self, pid: int | None) -> int | None:
        """Collect ended children. Return the exit code of `pid` if it has ended, -n for signal n."""
        found = None
        try:
            while True:
                ended, status = os.waitpid(-1, os.WNOHANG)
                if ended == 0:
                    return found
                if ended == pid:
                    found = os.waitstatus_to_exitcode(status)
        except ChildProcessError:
            return found
