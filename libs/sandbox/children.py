"""The supervisor's workers as it sees them, and what each is to do (standard library only)."""

from __future__ import annotations

import posix as os
import time

from libs.sandbox.frames import REQUEST, Decoder, Worker
from libs.sandbox.messages import BlockRequest
from libs.sandbox.processes import SIGKILL, kill

__all__ = ["Child", "Job", "write_some"]


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
        try:
            null = os.open("/dev/null", os.O_WRONLY | os.O_CLOEXEC)
        except OSError:  # as many are open as may be
            self.kill()
            return
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
