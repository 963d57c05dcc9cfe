"""The supervisor's workers: forked children, each with a pipe in and a pipe out (standard library only)."""

from __future__ import annotations

import os
import select
import sys
import time

from libs.sandbox.frames import REQUEST, Decoder, Worker
from libs.sandbox.interpreter import Interpreter
from libs.sandbox.link import Gone, Link
from libs.sandbox.messages import BlockRequest
from libs.sandbox.processes import SIGKILL, kill
from libs.sandbox.runner import Runner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

__all__ = ["Child", "Job", "fork_worker", "write_some"]

_PAUSE: Final = 0.1
"""Seconds that a worker for files waits with getting ready, unless a request comes."""


class Job:
    """One request on its way."""

    def __init__(self, stream: int, payload: bytes) -> None:
        self.stream = stream
        self.payload = payload
        self.kind, timeout = REQUEST.unpack_from(payload)
        self.deadline = time.monotonic() + timeout
        """Counted from when it came, whether or not a worker was free."""
        self.early = b""
        """Frames of its input that came while it waited for a worker."""
        self.ended_by: int | None = None
        """Why it was ended early."""
        self.killed = False
        """Whether what it runs was killed, after it did not heed an interrupt."""
        self.session: bytes | None = None
        """The live interpreter that it is for."""
        if self.kind == Worker.PYTHON:
            self.session = BlockRequest.decode(payload[REQUEST.size :]).session


class Child:
    """A worker as the supervisor sees it."""

    def __init__(self, pid: int, kind: int, reader: int, writer: int) -> None:
        self.pid = pid
        self.kind = kind
        self.reader = reader
        self.writer = writer
        self.decoder = Decoder()
        self.unsent: list[bytes] = []
        self.job: Job | None = None
        self.session: bytes | None = None
        """The session whose interpreter it keeps."""
        self.made = time.monotonic()
        self.given_up = False
        """Whether its end is the supervisor's doing."""
        self.refused_before: int | None = None
        """Where its last command has left something running: forks refused until then."""

    def flush(self) -> bool:
        """Send what its pipe takes; whether that was all."""
        try:
            write_some(self.writer, self.unsent)
        except BrokenPipeError:
            self.unsent.clear()  # it is gone: its own end of file follows
        return not self.unsent

    def dismiss(self) -> None:
        """Close its input: it gives up what it does, takes away what it has half done, and goes."""
        self.given_up = True
        self.unsent.clear()
        null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(null, self.writer, inheritable=False)
        os.close(null)

    def kill(self) -> None:
        """Kill the worker itself; what it runs is left."""
        self.given_up = True
        kill(self.pid, SIGKILL)

    def close(self) -> None:
        """Close both pipes."""
        os.close(self.reader)
        os.close(self.writer)


def fork_worker(kind: int, descriptors: Iterable[int]) -> Child | None:
    """A new worker, or None where no process can be made.

    Args:
        descriptors: what this process has open for others; the new one closes it.
    """
    to_child, ours_out = os.pipe()
    ours_in, from_child = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        for descriptor in (to_child, ours_out, ours_in, from_child):
            os.close(descriptor)
        return None
    if pid == 0:
        for descriptor in (ours_in, ours_out, *descriptors):
            os.close(descriptor)
        _work(kind, Link(to_child, from_child))
    os.close(to_child)
    os.close(from_child)
    os.set_blocking(ours_in, False)
    os.set_blocking(ours_out, False)
    return Child(pid, kind, ours_in, ours_out)


def _work(kind: int, link: Link) -> None:
    """In the fork: serve the link to the end of the process. The host's pipes are out of reach."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    # A command that forks without end leaves the supervisor and the host some time this way.
    os.nice(5)
    try:
        if kind == Worker.FILE:
            # Imported in this process alone, and not while a sandbox that has just been started gets to its
            # first command: this takes more of the processor than that.
            poll = select.poll()
            poll.register(link.reader, select.POLLIN)
            poll.poll(_PAUSE * 1000)
            from libs.sandbox.files import FileWorker

            FileWorker(link).serve()
        elif kind == Worker.PYTHON:
            Interpreter(link).serve()
        else:
            Runner(link).serve()
    except (BrokenPipeError, Gone):
        pass  # the supervisor is gone, or has given this worker up
    except Exception:  # noqa: BLE001 - a fork must not return into the supervisor's own loop
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
    os._exit(0)


def write_some(descriptor: int, unsent: list[bytes]) -> None:
    """Write what a non-blocking pipe takes; what it does not stays in the list.

    Raises:
        BrokenPipeError: nobody reads any more.
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
