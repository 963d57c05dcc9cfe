"""A worker that runs one command at a time, inside the sandbox (standard library only).

It is forked by the supervisor and talks to it over two pipes.
"""

from __future__ import annotations

# The module `signal` around it costs 5 ms to import.
import _signal  # type: ignore[import-not-found]
import errno
import posix as os
import select
import time

from libs.sandbox.capture import GATHER, Captured, last_frames, read_some
from libs.sandbox.frames import ANSWER, REQUEST, Ending, Fd, Kind, encode
from libs.sandbox.link import Link
from libs.sandbox.messages import RunReport, RunRequest
from libs.sandbox.processes import become_subreaper, kill_trees
from libs.sandbox.spill import spill_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from libs.sandbox.shells import Shells

__all__ = ["Runner"]


class Runner:
    """Serves `run` requests of the supervisor until it goes away."""

    def __init__(self, link: Link, shells: Shells) -> None:
        self._link = link
        self._shells = shells
        self._pipes = shells.pipes
        self._spill_dir = f"{os.getcwd()}/.output"
        self._wake, wake_writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        # A child that ends interrupts the poll through this pipe; the handler itself has nothing to do.
        _signal.signal(_signal.SIGCHLD, lambda *_: None)
        _signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
        become_subreaper()

    def serve(self) -> None:
        """Run commands until the supervisor closes the link."""
        for stream, kind, payload, _ in self._link.frames():
            if kind == Kind.OPEN:
                if not self._run(stream, RunRequest.decode(payload[REQUEST.size :])):
                    self._wait_for_background()
                self._discard()
                self._shells.prepare()
        self._leave()

    def _leave(self) -> None:
        kill_trees(os.getpid())
        os._exit(0)

    # -- one command

    def _run(self, stream: int, request: RunRequest) -> bool:
        """Serve one request; whether nothing that it started is left."""
        begun = time.monotonic()
        try:
            shell = self._shells.start(request)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.ENOMEM):
                raise
            return self._end(stream, Ending.BUSY)
        name = f"{self._spill_dir}/{spill_name()}"
        outputs = {Fd.OUT: Captured(Fd.OUT, request.limit, f"{name}.txt")}
        if not request.merge:
            outputs[Fd.ERR] = Captured(Fd.ERR, request.limit, f"{name}.stderr.txt")
        exit_code = self._watch(shell, stream, outputs, live=request.live)
        sent, reports = last_frames(stream, outputs, self._pipes)
        report = RunReport(exit_code, time.monotonic() - begun, reports)
        return self._end(stream, Ending.DONE, report.encode(), before=sent)

    def _watch(self, shell: int, stream: int, outputs: dict[int, Captured], *, live: bool) -> int:
        """Collect output until the shell exits; return its exit code."""
        poll = select.poll()
        readers = {self._pipes[fd][0]: item for fd, item in outputs.items()}
        for descriptor in (*readers, self._wake):
            poll.register(descriptor, select.POLLIN)
        poll.register(self._link.reader, 0)
        pending_since: float | None = None
        while True:
            if pending_since is None:
                events = poll.poll()
            else:
                events = poll.poll(max(0.0, GATHER - (time.monotonic() - pending_since)) * 1000)
            exited: int | None = None
            for descriptor, _ in events:
                if descriptor in readers:
                    data = read_some(descriptor)
                    if data:
                        readers[descriptor].add(data, live)
                        pending_since = pending_since or time.monotonic()
                elif descriptor == self._wake:
                    os.read(self._wake, 4096)
                    exited = self._reap(shell)
                else:
                    self._leave()
            if exited is not None:
                return exited
            if pending_since is not None and time.monotonic() - pending_since >= GATHER:
                pending_since = None
                if sent := b"".join(item.frames(stream) for item in outputs.values()):
                    self._link.send(sent)

    def _reap(self, shell: int) -> int | None:
        """Collect every child that has ended; the exit code of `shell` if it is among them."""
        found = None
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return found
                if pid == shell:
                    code = os.waitstatus_to_exitcode(status)
                    found = code if code >= 0 else 128 - code
        except ChildProcessError:
            return found

    def _end(self, stream: int, ending: int, report: bytes = b"", *, before: bytes = b"") -> bool:
        idle = self._childless()
        self._link.send(before + encode(stream, Kind.END, ANSWER.pack(ending, idle) + report))
        return idle

    # -- between commands

    def _childless(self) -> bool:
        self._reap(-1)
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return True
        return False

    def _wait_for_background(self) -> None:
        """Wait until what the command left running has ended; its output is read and dropped."""
        poll = select.poll()
        for descriptor in (*(reader for reader, _ in self._pipes.values()), self._wake):
            poll.register(descriptor, select.POLLIN)
        poll.register(self._link.reader, 0)
        while not self._childless():
            for descriptor, _ in poll.poll():
                if descriptor == self._wake:
                    os.read(self._wake, 4096)
                elif descriptor == self._link.reader:
                    self._leave()
                else:
                    read_some(descriptor)
        self._link.send(encode(0, Kind.IDLE))

    def _discard(self) -> None:
        """Empty the pipes: nothing that writes to them is left, and the next output begins clean."""
        for reader, _ in self._pipes.values():
            while read_some(reader):
                pass
