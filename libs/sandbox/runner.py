"""A worker that runs one command at a time, inside the sandbox (standard library only).

It is forked by the supervisor and talks to it over two pipes. A shell waits ready: started, its
environment set, reading descriptor 9 for the command. So a command costs no process start.
"""

from __future__ import annotations

# The module `signal` around it costs 5 ms to import.
import _signal  # type: ignore[import-not-found]
import errno
import os
import select
import time

from libs.sandbox.capture import GATHER, Captured, last_frames, read_some
from libs.sandbox.frames import ANSWER, REQUEST, Ending, Fd, Kind, encode
from libs.sandbox.link import Link
from libs.sandbox.messages import RunReport, RunRequest
from libs.sandbox.processes import SIGCONT, SIGKILL, become_subreaper, kill, kill_tree
from libs.sandbox.spill import spill_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

__all__ = ["Runner"]

# Same descriptor whether the command comes through the pipe of a waiting shell or out of a memfd; the
# variable is the one that `bash -c` itself keeps its command in. Under memory pressure the kernel shall end
# the command, not the supervisor: hence the score.
_SHELL: Final = (
    "echo 500 2>/dev/null >/proc/self/oom_score_adj; read -rd '' -u 9 BASH_EXECUTION_STRING; exec 9<&-; "
    'SECONDS=0; eval "$BASH_EXECUTION_STRING"'
)
_COMMAND_FD: Final = 9
_PIPE_LIMIT: Final = 32 * 1024
"""Longest command, in bytes, that goes to the waiting shell: bash reads a pipe byte by byte."""


class Runner:
    """Serves `run` requests of the supervisor until it goes away."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._spill_dir = f"{os.getcwd()}/.output"
        self._waiting: tuple[int, int] | None = None
        """The shell that waits, and the pipe that it reads its command from."""
        self._null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self._pipes = {fd: os.pipe2(os.O_CLOEXEC) for fd in (Fd.OUT, Fd.ERR)}
        for reader, _ in self._pipes.values():
            os.set_blocking(reader, False)
        self._wake, wake_writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        # A child that ends interrupts the poll through this pipe; the handler itself has nothing to do.
        _signal.signal(_signal.SIGCHLD, lambda *_: None)
        _signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
        become_subreaper()

    def serve(self) -> None:
        """Run commands until the supervisor closes the link."""
        self._prepare()
        for stream, kind, payload, _ in self._link.frames():
            if kind == Kind.OPEN:
                if not self._run(stream, RunRequest.decode(payload[REQUEST.size :])):
                    self._wait_for_background()
                self._discard()
                self._prepare()
        self._leave()

    def _leave(self) -> None:
        kill_tree(os.getpid())
        os._exit(0)

    # -- starting shells

    def _prepare(self) -> None:
        """Have a shell waiting. Where none can be started now, the next command tries again.

        Each has a pipe of its own: what one that was killed has not read, no other may run.
        """
        self._waiting = None
        reader, writer = os.pipe2(os.O_CLOEXEC)
        try:
            self._waiting = self._start_shell(reader, Fd.OUT, os.environb), writer
            os.set_blocking(writer, False)
        except OSError:
            os.close(writer)
        finally:
            os.close(reader)

    def _start_shell(self, command_fd: int, stderr: int, environment: Mapping[bytes, bytes]) -> int:
        return os.posix_spawn(
            "/bin/bash",
            ["bash", "-c", _SHELL],
            environment,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, self._null, 0),
                (os.POSIX_SPAWN_DUP2, self._pipes[Fd.OUT][1], 1),
                (os.POSIX_SPAWN_DUP2, self._pipes[stderr][1], 2),
                (os.POSIX_SPAWN_DUP2, command_fd, _COMMAND_FD),
            ],
            setsid=True,
            setsigmask=[],
            setsigdef=[_signal.SIGPIPE, _signal.SIGXFSZ],
        )

    def _tell_waiting(self, command: bytes | None) -> int | None:
        """Have the waiting shell run a command; None where it does not. It waits no more in any case."""
        if self._waiting is None:
            return None
        (shell, writer), self._waiting = self._waiting, None
        try:
            ended, _ = os.waitpid(shell, os.WNOHANG)
            if ended:
                return None
            kill(shell, SIGCONT)  # a command of before may have stopped it
            if command is not None and os.write(writer, command) == len(command):
                return shell
        except ChildProcessError:
            return None
        except (BrokenPipeError, BlockingIOError):
            pass  # a command of before has just ended it, or filled its pipe
        finally:
            os.close(writer)
        kill(shell, SIGKILL)
        os.waitpid(shell, 0)
        return None

    def _start(self, request: RunRequest) -> int:
        command = request.command + b"\0"
        plain = request.merge and not request.env and len(command) <= _PIPE_LIMIT
        shell = self._tell_waiting(command if plain else None)
        if shell is not None:
            return shell
        memory = os.memfd_create("command")
        try:
            view = memoryview(command)
            while view:
                view = view[os.write(memory, view) :]
            os.lseek(memory, 0, os.SEEK_SET)
            added = dict(item.split(b"=", 1) for item in request.env)
            return self._start_shell(memory, Fd.OUT if request.merge else Fd.ERR, {**os.environb, **added})
        finally:
            os.close(memory)

    # -- one command

    def _run(self, stream: int, request: RunRequest) -> bool:
        """Serve one request; whether nothing that it started is left."""
        begun = time.monotonic()
        try:
            shell = self._start(request)
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
