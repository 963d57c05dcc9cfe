"""A worker that runs one command at a time, inside the sandbox (standard library only).

It is forked by the supervisor and talks to it over one socket. A shell waits ready: started, its
environment set, reading descriptor 9 for the command. So a command costs no process start.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import select
import signal
import socket
import struct
import termios
import time
from typing import Any, Final

from libs.sandbox.frames import Decoder, Fd, Frame, Kind, encode
from libs.sandbox.output import Output
from libs.sandbox.processes import become_subreaper, kill_tree

__all__ = ["Runner"]

# Same descriptor whether the command comes through the pipe of a waiting shell or out of a memfd. Under
# memory pressure the kernel shall end the command, not the supervisor: hence the score.
_SHELL: Final = 'echo 500 2>/dev/null >/proc/self/oom_score_adj; read -rd "" -u 9; exec 9<&-; eval "$REPLY"'
_COMMAND_FD: Final = 9
_PIPE_LIMIT: Final = 32 * 1024
"""Longest command, in bytes, that goes to the waiting shell: bash reads a pipe byte by byte."""
_READ: Final = 64 * 1024
_GATHER: Final = 0.002
"""Seconds that output waits for the command's end, so that both travel in one write."""
_LIVE_BYTES: Final = 64 * 1024
_LIVE_SECONDS: Final = 0.05
"""At most so many bytes in so many seconds are shown live once an output is over its first half."""


class _Stream:
    """One output descriptor of the running command."""

    def __init__(self, fd: Fd, limit: int, spill_path: str) -> None:
        self.fd = fd
        self.output = Output(limit, spill_path)
        self.head: list[bytes] = []
        self.live: list[bytes] = []
        self._live_since = 0.0
        self._live_sent = 0

    def add(self, data: bytes, live: bool) -> None:
        room = self.output.add(data)
        if room:
            self.head.append(data[:room])
        if live and room < len(data):
            now = time.monotonic()
            if now - self._live_since >= _LIVE_SECONDS:
                self._live_since, self._live_sent = now, 0
            shown = data[room:][: _LIVE_BYTES - self._live_sent]
            self._live_sent += len(shown)
            self.live.append(shown)

    def frames(self, stream: int) -> bytes:
        """What is to be sent now."""
        sent = b""
        for kind, pieces in ((Kind.DATA, self.head), (Kind.LIVE, self.live)):
            data = b"".join(pieces)
            pieces.clear()
            if data:
                sent += encode(stream, kind, data, self.fd)
        return sent


class Runner:
    """Serves `run` requests of the supervisor until it goes away."""

    def __init__(self, link: socket.socket, *, environment: dict[str, str], spill_dir: str) -> None:
        self._link = link
        self._environment = environment
        self._spill_dir = spill_dir
        self._decoder = Decoder()
        self._waiting: int | None = None
        self._null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self._pipes = {fd: os.pipe2(os.O_CLOEXEC) for fd in Fd}
        for reader, _ in self._pipes.values():
            os.set_blocking(reader, False)
        self._command_reader, self._command_writer = os.pipe2(os.O_CLOEXEC)
        self._wake, wake_writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        # A child that ends interrupts the poll through this pipe; the handler itself has nothing to do.
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
        become_subreaper()

    def serve(self) -> None:
        """Run commands until the supervisor closes the link."""
        self._prepare()
        while data := self._link.recv(_READ):
            for frame in self._decoder.feed(data):
                if frame.kind == Kind.OPEN:
                    if not self._run(frame):
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
        with contextlib.suppress(OSError):
            self._waiting = self._start_shell(self._command_reader, Fd.OUT, self._environment)

    def _start_shell(self, command_fd: int, stderr: Fd, environment: dict[str, str]) -> int:
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
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
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
        return None if ended else pid

    def _start(self, request: dict[str, Any]) -> int:
        command = request["command"].encode("utf-8", "surrogateescape") + b"\0"
        plain = request["merge"] and not request["env"] and len(command) <= _PIPE_LIMIT
        waiting = self._take_waiting()
        if plain and waiting is not None:
            os.write(self._command_writer, command)
            return waiting
        if waiting is not None:
            # It holds the command pipe: a shell that is not used must not read the next command.
            os.kill(waiting, signal.SIGKILL)
            os.waitpid(waiting, 0)
        memory = os.memfd_create("command")
        try:
            with open(memory, "wb", closefd=False) as file:
                file.write(command)
            os.lseek(memory, 0, os.SEEK_SET)
            stderr = Fd.OUT if request["merge"] else Fd.ERR
            return self._start_shell(memory, stderr, {**self._environment, **request["env"]})
        finally:
            os.close(memory)

    # -- one command

    def _run(self, frame: Frame) -> bool:
        """Serve one request; whether nothing that it started is left."""
        request = json.loads(frame.payload)
        begun = time.monotonic()
        try:
            shell = self._start(request)
        except OSError as error:
            return self._end(frame.stream, {"error": "busy" if error.errno == errno.EAGAIN else str(error)})
        name = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(3).hex()}"
        streams = {
            fd: _Stream(fd, request["limit"], f"{self._spill_dir}/{name}{'.stderr' * (fd is Fd.ERR)}.txt")
            for fd in (Fd.OUT, Fd.ERR)[: 1 if request["merge"] else 2]
        }
        status = self._watch(shell, frame.stream, streams, live=request["live"])
        # The shell is gone. What it wrote lies in the pipes; what its background children write later is
        # not part of the result, so exactly what is there now is read.
        for fd, stream in streams.items():
            reader = self._pipes[fd][0]
            left = _readable(reader)
            while left > 0 and (data := os.read(reader, min(left, _READ))):
                left -= len(data)
                stream.add(data, live=False)
        message: dict[str, Any] = {"exit_code": status, "seconds": time.monotonic() - begun}
        sent = b""
        for fd, stream in streams.items():
            sent += stream.frames(frame.stream)
            tail, chars = stream.output.finish()
            if tail:
                sent += encode(frame.stream, Kind.TAIL, tail, fd)
            output = stream.output
            message[fd.name.lower()] = {"chars": chars, "spill": output.spill_path, "spilled": output.spilled}
        return self._end(frame.stream, message, before=sent)

    def _watch(self, shell: int, stream: int, streams: dict[Fd, _Stream], *, live: bool) -> int:
        """Collect output until the shell exits; return its exit code."""
        poll = select.poll()
        readers = {self._pipes[fd][0]: item for fd, item in streams.items()}
        for descriptor in (*readers, self._wake):
            poll.register(descriptor, select.POLLIN)
        poll.register(self._link, select.POLLHUP | select.POLLRDHUP)
        pending_since: float | None = None
        while True:
            if pending_since is None:
                events = poll.poll()
            else:
                events = poll.poll(max(0.0, _GATHER - (time.monotonic() - pending_since)) * 1000)
            exited: int | None = None
            for descriptor, _ in events:
                if descriptor in readers:
                    data = _read_some(descriptor)
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
            if pending_since is not None and time.monotonic() - pending_since >= _GATHER:
                pending_since = None
                if sent := b"".join(item.frames(stream) for item in streams.values()):
                    self._link.sendall(sent)

    def _reap(self, shell: int) -> int | None:
        """Collect every child that has ended; the exit code of `shell` if it is among them."""
        found = None
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid == shell:
                    code = os.waitstatus_to_exitcode(status)
                    found = code if code >= 0 else 128 - code
        return found

    def _end(self, stream: int, message: dict[str, Any], *, before: bytes = b"") -> bool:
        message["idle"] = self._childless()
        self._link.sendall(before + encode(stream, Kind.END, json.dumps(message).encode()))
        return bool(message["idle"])

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
        poll.register(self._link, select.POLLHUP | select.POLLRDHUP)
        while not self._childless():
            for descriptor, _ in poll.poll():
                if descriptor == self._wake:
                    os.read(self._wake, 4096)
                elif descriptor == self._link.fileno():
                    self._leave()
                else:
                    _read_some(descriptor)
        self._link.sendall(encode(0, Kind.IDLE))

    def _discard(self) -> None:
        """Empty the pipes: nothing that writes to them is left, and the next output begins clean."""
        for reader, _ in self._pipes.values():
            while _read_some(reader):
                pass


def _read_some(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _READ)
    except BlockingIOError:
        return b""


def _readable(descriptor: int) -> int:
    """Bytes that lie in a pipe. See ioctl_tty(2), FIONREAD."""
    answer = fcntl.ioctl(descriptor, termios.FIONREAD, struct.pack("i", 0))
    count: int = struct.unpack("i", answer)[0]
    return count
