"""A worker that keeps one live Python interpreter, inside the sandbox (standard library only).

Blocks of one session run in it one after the other: variables stay, imports are paid once. The worker
itself runs nothing of the model's: it starts `repl.py` as a child, hands it blocks and catches its output.
"""

from __future__ import annotations

# The module `signal` around it costs 5 ms to import.
import _signal  # type: ignore[import-not-found]
import errno
import posix as os
import select
import struct
import sys
import time

from libs.sandbox.capture import GATHER, Captured, last_frames, read_some, read_waiting
from libs.sandbox.frames import ANSWER, REQUEST, Ending, Fd, Kind, encode
from libs.sandbox.link import Gone, Link
from libs.sandbox.messages import BlockRequest, RunReport
from libs.sandbox.processes import SIGKILL, become_subreaper, kill, kill_trees
from libs.sandbox.spill import spill_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

    from libs.sandbox.frames import Frame

__all__ = ["Interpreter"]

_PROGRAM: Final = __file__.rpartition("/")[0] + "/repl.py"
_SIGINT: Final = 2
_PATIENCE: Final = 0.1
"""Seconds in which what an interrupted block has started is ended."""
_HEADER: Final = struct.Struct("!I8s")
"""Of a block: its length, and what its answer begins with. See `repl.py`."""
_INTERRUPTED: Final = 130
"""What a block ends with that was interrupted."""
_FORGED: Final = "[the interpreter was ended: the block answered in its place, and its variables are lost]"


class Interpreter:
    """Serves the blocks of one session until the supervisor goes away."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._frames: Iterator[Frame] = link.frames()
        self._spill_dir = f"{os.getcwd()}/.output"
        self._null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        self._pipe = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._pipe[0], False)
        self._wake, wake_writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        # A child that ends interrupts the poll through this pipe; the handler itself has nothing to do.
        _signal.signal(_signal.SIGCHLD, lambda *_: None)
        _signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
        become_subreaper()
        self._python: int | None = None
        self._blocks = self._answers = -1
        self._mark = b""
        """What the answer to the block begins with: a byte that a block writes is no answer."""

    def serve(self) -> None:
        """Run blocks until the supervisor closes the link."""
        for stream, kind, payload, _ in self._frames:
            if kind == Kind.OPEN:
                self._run(stream, BlockRequest.decode(payload[REQUEST.size :]))
        kill_trees(os.getpid())

    def _start(self) -> None:
        """Start an interpreter where none lives."""
        self._reap()
        if self._python is not None:
            return
        for descriptor in (self._blocks, self._answers):
            if descriptor >= 0:
                os.close(descriptor)
        theirs_in, self._blocks = os.pipe2(os.O_CLOEXEC)
        self._answers, theirs_out = os.pipe2(os.O_CLOEXEC)
        try:
            self._python = os.posix_spawn(
                sys.executable,
                [sys.executable, _PROGRAM, "3", "4"],
                os.environ,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, self._null, 0),
                    (os.POSIX_SPAWN_DUP2, self._pipe[1], 1),
                    (os.POSIX_SPAWN_DUP2, self._pipe[1], 2),
                    # Over 3 and 4 by way of numbers that are surely free: they may be each other's.
                    (os.POSIX_SPAWN_DUP2, theirs_in, 103),
                    (os.POSIX_SPAWN_DUP2, theirs_out, 104),
                    (os.POSIX_SPAWN_DUP2, 103, 3),
                    (os.POSIX_SPAWN_DUP2, 104, 4),
                    (os.POSIX_SPAWN_CLOSE, 103),
                    (os.POSIX_SPAWN_CLOSE, 104),
                ],
                setsid=True,
                setsigmask=[],
                setsigdef=[_signal.SIGPIPE, _signal.SIGXFSZ],
            )
        finally:
            os.close(theirs_in)
            os.close(theirs_out)

    def _run(self, stream: int, request: BlockRequest) -> None:
        begun = time.monotonic()
        born = time.clock_gettime(time.CLOCK_BOOTTIME)
        for _ in read_waiting(self._pipe[0]):
            pass  # printed by threads and children of before
        given_up = False
        try:
            self._start()
            given_up = self._link.waiting()
            self._mark = os.urandom(8)
            if not given_up:
                _write_all(self._blocks, _HEADER.pack(len(request.code), self._mark) + request.code)
        except BrokenPipeError:
            pass  # it has ended just now: seen below
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.ENOMEM):
                raise
            self._link.send(encode(stream, Kind.END, ANSWER.pack(Ending.BUSY, True)))
            return
        captured = Captured(Fd.OUT, request.limit, f"{self._spill_dir}/{spill_name()}.txt")
        if given_up:
            # Before it was begun: an interrupt would find the interpreter between two blocks, and end it.
            self._hear()
            exit_code, note = _INTERRUPTED, ""
        else:
            exit_code, note = self._watch(stream, captured, born)
        outputs = {Fd.OUT: captured}
        for data in read_waiting(self._pipe[0]):
            captured.add(data, live=False)
        if note:
            captured.add(("\n" * bool(captured.output.total) + note).encode(), live=True)
        sent, reports = last_frames(stream, outputs, {Fd.OUT: self._pipe})
        report = RunReport(exit_code, time.monotonic() - begun, reports).encode()
        self._link.send(sent + encode(stream, Kind.END, ANSWER.pack(Ending.DONE, True) + report))

    def _watch(self, stream: int, captured: Captured, born: float) -> tuple[int, str]:
        """Collect output until the block has ended: its exit code, and a note where the interpreter ended."""
        poll = select.poll()
        for descriptor in (self._pipe[0], self._answers, self._wake, self._link.reader):
            poll.register(descriptor, select.POLLIN)
        pending_since: float | None = None
        interrupted = forged = False
        while True:
            wait = None if pending_since is None else pending_since + GATHER - time.monotonic()
            events = dict(poll.poll(None if wait is None else max(0.0, wait) * 1000))
            if self._pipe[0] in events and (data := read_some(self._pipe[0])):
                captured.add(data, live=True)
                pending_since = pending_since or time.monotonic()
            if self._answers in events and not forged and (answer := os.read(self._answers, 64)):
                if answer[:-1] == self._mark:
                    return answer[-1], ""
                forged = True
                poll.unregister(self._answers)
                if self._python is not None:
                    kill(self._python, SIGKILL)
            if self._wake in events:
                os.read(self._wake, 4096)
                ended = self._reap()
                if ended is not None:
                    kill_trees(os.getpid())
                    code, note = _how_it_ended(ended)
                    if forged:
                        return code, _FORGED
                    # Where the supervisor wanted it to end, nobody wonders why it did.
                    return code, "" if interrupted else note
            if self._link.reader in events:
                interrupted = True
                self._interrupt(born)
            if pending_since is not None and time.monotonic() - pending_since >= GATHER:
                pending_since = None
                if sent := captured.frames(stream):
                    self._link.send(sent)

    def _hear(self) -> None:
        """Take the word that the block is to end. Raises Gone where this worker is to go, too."""
        if next(self._frames, None) is None:
            kill_trees(os.getpid())
            raise Gone

    def _interrupt(self, born: float) -> None:
        """The supervisor wants the block to end: interrupt it, and end what it has started."""
        self._hear()
        if self._python is not None:
            kill(self._python, _SIGINT)
            # Below this worker, not below the interpreter: who has lost their parent are its children.
            # Briefly: the supervisor gives the block a moment to report, and one that forks faster may go on.
            kill_trees(os.getpid(), patience=_PATIENCE, since=born, spared=(self._python,))

    def _reap(self) -> int | None:
        """Collect every child that has ended; the interpreter's wait status if it is among them."""
        found = None
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return found
                if pid == self._python:
                    self._python, found = None, status
        except ChildProcessError:
            return found


def _how_it_ended(status: int) -> tuple[int, str]:
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return code, f"[the interpreter ended with exit code {code}: its variables are lost]"
    cause = ", perhaps for the memory it used" if -code == SIGKILL else ""
    return 128 - code, f"[the interpreter was ended by signal {-code}{cause}: its variables are lost]"


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
