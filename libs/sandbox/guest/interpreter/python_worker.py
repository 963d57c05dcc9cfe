"""Keeps one live Python interpreter inside the sandbox (standard library only).

Blocks of one session run in the interpreter one after the other, so variables and imports stay. The worker
runs no code of the model itself: it starts `repl.py` as a child, sends it blocks and collects its output.
"""

from __future__ import annotations

# The module `signal` takes 4 ms to import.
import _signal  # type: ignore[import-not-found]
import errno
import os
import select
import struct
import sys
import time

from libs.sandbox.guest.interpreter.block_output import BlockOutput
from libs.sandbox.guest.workers.capture import last_frames, read_some, read_waiting
from libs.sandbox.guest.workers.frame_pipes import Gone, Link, readable, write_all
from libs.sandbox.guest.workers.kill_process_trees import SIGCONT, SIGKILL, kill, kill_trees, moment
from libs.sandbox.guest.workers.memory_kills import memory_kills
from libs.sandbox.guest.workers.process_worker import ProcessWorker
from libs.sandbox.guest.workers.skill_commands import command_folders
from libs.sandbox.guest.workers.spill import spill_name
from libs.sandbox.wire.frames import ANSWER, REQUEST, Ending, Fd, Frame, Kind, encode
from libs.sandbox.wire.messages import FRESH, NO_MEMORY, BlockRequest, RunReport

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Interpreter"]

_PROGRAM = __file__.rpartition("/")[0] + "/repl.py"
_SIGINT = 2
_PATIENCE = 0.1
"""Seconds for killing the processes of an interrupted block."""
_HEADER = struct.Struct("!II8s8s")
"""Header of a block: the length of the list of command folders, the length of the block, the mark with which
the output begins, and the mark with which the answer must begin. See `block_server.py`."""
_FORGED = (
    "[the interpreter was ended: a block or another process answered in its place, "
    "and its variables are lost]"
)
_TAKEN = (
    "[the interpreter was ended: a block closed or replaced its descriptors, or a process sent it signal 64, "
    "and its variables are lost]"
)
_FAILED = 1
_TAKEN_SIGNAL = _signal.SIGRTMAX
"""Ends the interpreter if a block has closed or replaced its descriptors. See `block_server.py`."""


class Interpreter(ProcessWorker):
    """Serves the blocks of one session until the supervisor closes the link."""

    def __init__(self, link: Link) -> None:
        self._pipe = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._pipe[0], False)
        super().__init__(link, {Fd.OUT: self._pipe})
        self._frames: Iterator[Frame] = link.frames()
        self._null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        self._python: int | None = None
        self._blocks = self._answers = -1
        self._unread = False
        """Whether no caller has read yet that variables are lost: the block with the note was cancelled."""
        self._missed = 0
        """Bytes printed since the last block of which a caller has read the output."""
        self._ended_by = Ending.DONE
        """Why the supervisor has interrupted the block. DONE: it has not. See `Ending`."""
        self._mark = b""
        """Random mark of the expected answer, so that a block cannot write an answer itself."""

    def serve(self) -> None:
        """Run blocks until the supervisor closes the link."""
        while frame := self._next_frame():
            stream, kind, payload, _ = frame
            if kind == Kind.OPEN:  # a CANCEL may come too late, after the end of its block
                self._run(stream, BlockRequest.decode(payload[REQUEST.size :]))
        kill_trees(os.getpid())

    def _next_frame(self) -> Frame | None:
        """Wait for a frame. Meanwhile, count and drop what threads and processes of earlier blocks print.

        Otherwise they would wait as soon as the pipe is full.
        """
        poll = select.poll()
        for descriptor in (self._link.reader, self._pipe[0]):
            poll.register(descriptor, select.POLLIN)
        while not self._link.waiting():
            poll.poll()
            self._missed += len(read_some(self._pipe[0]))
        return next(self._frames, None)

    def _start(self) -> bool:
        """Start the interpreter if it does not run. Return whether it was started."""
        if self._reap(self._python) is not None:
            self._python = None
        if self._python is not None:
            if not readable(self._answers):
                return False
            # A block has answered before its end, and may still run.
            kill_trees(os.getpid())
            self._python = None
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
                    # Through free numbers, because the descriptors themselves may be 3 and 4. 64 files are
                    # the lowest limit of open files.
                    (os.POSIX_SPAWN_DUP2, theirs_in, 62),
                    (os.POSIX_SPAWN_DUP2, theirs_out, 63),
                    (os.POSIX_SPAWN_DUP2, 62, 3),
                    (os.POSIX_SPAWN_DUP2, 63, 4),
                    (os.POSIX_SPAWN_CLOSE, 62),
                    (os.POSIX_SPAWN_CLOSE, 63),
                ],
                setsid=True,
                setsigmask=[_SIGINT],  # an interrupt waits until the interpreter can handle it
                setsigdef=[_signal.SIGPIPE, _signal.SIGXFSZ],
            )
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        return True

    def _run(self, stream: int, request: BlockRequest) -> None:
        if request.ends:
            # Not by code in the interpreter: a block may have changed the modules that it would need.
            kill_trees(os.getpid())
            self._link.send(encode(stream, Kind.END, ANSWER.pack(Ending.DONE, True)))
            return
        begun = time.monotonic()
        born = moment()
        self._missed += sum(map(len, read_waiting(self._pipe[0])))
        before = memory_kills()
        captured = BlockOutput(
            Fd.OUT, request.limit, f"{self._spill_dir}/{spill_name()}.txt", os.urandom(8), self._missed
        )
        self._ended_by = Ending.DONE
        try:
            exit_code, note, ending = self._block(stream, request, captured, born)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.ENOMEM):
                raise
            self._link.send(encode(stream, Kind.END, ANSWER.pack(Ending.BUSY, True)))
            return
        if ending == Ending.WAITED:
            self._link.send(encode(stream, Kind.END, ANSWER.pack(ending, True)))
            return
        outputs = {Fd.OUT: captured}
        for data in read_waiting(self._pipe[0]):
            captured.add(data, live=False)
        captured.show_held()
        if memory_kills() > before:
            captured.add(NO_MEMORY, live=True)
        if note:
            captured.add(("\n" * bool(captured.output.total) + note).encode(), live=True)
        self._missed = captured.missed
        if ending != Ending.CANCELLED:
            self._unread, self._missed = False, 0
        sent, reports = last_frames(stream, outputs, {Fd.OUT: self._pipe})
        report = RunReport(exit_code, time.monotonic() - begun, reports).encode()
        self._link.send(sent + encode(stream, Kind.END, ANSWER.pack(ending, True) + report))

    def _block(
        self, stream: int, request: BlockRequest, captured: BlockOutput, born: tuple[int, int]
    ) -> tuple[int, str, int]:
        """Let the interpreter run a block. Return as `_watch`. WAITED: the block was cancelled before.

        If the interpreter ends before the block begins, a new one runs the block. So the end is not blamed on
        the block: a process that was killed may live for a while, until its memory is freed.

        Raises:
            OSError: no process can be started.
        """
        ended = False
        while True:
            started = self._start()
            if started:
                self._unread = request.continues or ended
            elif self._python is not None:
                kill(self._python, SIGCONT)  # an earlier block or command may have stopped the interpreter
            if self._unread and not captured.output.total:
                captured.note(FRESH)
            while self._link.waiting():
                if self._hear():
                    return 1, "", Ending.WAITED
            self._mark = os.urandom(8)
            folders = os.fsencode(":".join(command_folders()))
            header = _HEADER.pack(len(folders), len(request.code), captured.mark, self._mark)
            try:
                write_all(self._blocks, header + folders + request.code)
            except BrokenPipeError:
                pass  # the interpreter has just ended, which `_watch` sees
            exit_code, note, ending = self._watch(stream, captured, born)
            if started or ending != Ending.DONE or note in ("", _FORGED, _TAKEN):
                return exit_code, note, ending
            for data in read_waiting(self._pipe[0]):  # the mark may be there
                captured.add(data, live=True)
            # The interpreter ends itself if no block can be served, and says so.
            if not captured.waits or (exit_code == _FAILED and captured.held):
                return exit_code, note, ending
            ended = True

    def _watch(self, stream: int, captured: BlockOutput, born: tuple[int, int]) -> tuple[int, str, int]:
        """Collect output until the block ends.

        Returns its exit code, a note if the interpreter ended, and the Ending.
        """
        forged = False
        others = dict.fromkeys((self._answers, self._link.reader), select.POLLIN)
        for ready in self._collect(stream, {Fd.OUT: captured}, True, others):
            if self._answers in ready and not forged and (answer := os.read(self._answers, 64)):
                if answer[:-1] == self._mark:
                    if self._ended_by != Ending.DONE:
                        self._end_processes(born)  # those that it has started after the interrupt
                    return answer[-1], "", self._ended_by
                forged = True
                if self._python is not None:
                    kill(self._python, SIGKILL)
            if self._wake in ready and (code := self._reap(self._python)) is not None:
                self._python = None
                kill_trees(os.getpid())
                exit_code, note = _how_it_ended(code)
                if forged:
                    note = _FORGED
                elif self._ended_by != Ending.DONE:
                    note = ""  # the host says it
                late = self._ended_by == Ending.TIMEOUT
                return exit_code, note, Ending.ENDED if late else self._ended_by
            if self._link.reader in ready and self._hear():
                self._interrupt(born)
        raise AssertionError

    def _hear(self) -> bool:
        """Read a frame. Return whether it cancels the block. Raises Gone if this worker is dismissed."""
        frame = next(self._frames, None)
        if frame is None:
            kill_trees(os.getpid())
            raise Gone
        _, kind, payload, _ = frame
        if kind == Kind.CANCEL:
            self._ended_by = payload[0]
        return kind == Kind.CANCEL

    def _interrupt(self, born: tuple[int, int]) -> None:
        """Interrupt the block and kill the processes that it has started."""
        if self._python is not None:
            kill(self._python, _SIGINT)
            self._end_processes(born)

    def _end_processes(self, born: tuple[int, int]) -> None:
        """Kill the processes that the block has started."""
        # Search below this worker, which adopts orphans of the interpreter. Not for long, because the
        # supervisor waits only briefly for the block's report.
        kill_trees(os.getpid(), patience=_PATIENCE, since=born, spared=(self._python or 0,))


def _how_it_ended(code: int) -> tuple[int, str]:
    if code == -_TAKEN_SIGNAL:
        return 1, _TAKEN
    if code >= 0:
        return code, f"[the interpreter ended with exit code {code}: its variables are lost]"
    return 128 - code, f"[the interpreter was ended by signal {-code}: its variables are lost]"
