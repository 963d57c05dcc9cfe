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

from libs.sandbox.capture import GATHER, Captured, last_frames, read_some, spill_name
from libs.sandbox.frames import ANSWER, REQUEST, Ending, Fd, Kind, encode
from libs.sandbox.link import Link
from libs.sandbox.messages import RunReport, RunRequest
from libs.sandbox.processes import SIGCONT, SIGKILL, become_subreaper, kill, kill_tree

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
        self._waiting: int | None = None
        self._null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self._pipes = {fd: os.pipe2(os.O_CLOEXEC) for fd in (Fd.OUT, Fd.ERR)}
        for reader, _ in self._pipes.values():
            os.set_blocking(reader, False)
        self._command_reader, self._command_writer = os.pipe2(os.O_CLOEXEC)
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
        """Have a shell waiting. Where none can be started now, the next command tries again."""
        try:
            self._waiting = self._start_shell(self._command_reader, Fd.OUT, os.environb)
        except OSError:
            self._waiting = None

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

    def _take_waiting(self) -> int | None:
        """The waiting shell, unless a command of before has ended it."""
        pid, self._waiting = self._waiting, None
        if pid is None:
            return None
        try:
            ended, _ = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            return None
        if ended:
            return None
        kill(pid, SIGCONT)  # a command of before may have stopped it
        return pid

    def _start(self, request: RunRequest) -> int:
        command = request.command + b"\0"
        plain = request.merge and not request.env and len(command) <= _PIPE_LIMIT
        waiting = self._take_waiting()
        if plain and waiting is not None:
            os.write(self._command_writer, command)
            return waiting
        if waiting is not None:
            # It holds the command pipe: a shell that is not used must not read the next command.
            kill(waiting, SIGKILL)
            os.waitpid(waiting, 0)
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
        """Empty the pipes: nothing that writes to them is left, and the next output begins clean.

        That of commands too: a shell that was ended in the middle of its command has left the rest there, and
        the next shell would run it.
        """
        for reader, _ in self._pipes.values():
            while read_some(reader):
                pass
        unread = select.poll()
        unread.register(self._command_reader, select.POLLIN)
        while unread.poll(0):
            os.read(self._command_reader, _PIPE_LIMIT)
