"""Runs one command at a time inside the sandbox, and collects its output (standard library only)."""

from __future__ import annotations

import errno
import os
import select
import time

from libs.sandbox.guest.workers.capture import Captured, last_frames, read_some, read_waiting
from libs.sandbox.guest.workers.frame_pipes import Link
from libs.sandbox.guest.workers.kill_process_trees import SUBREAPERS, kill_trees
from libs.sandbox.guest.workers.memory_kills import memory_kills
from libs.sandbox.guest.workers.process_worker import ProcessWorker
from libs.sandbox.guest.workers.shells import Shells
from libs.sandbox.guest.workers.spill import spill_name
from libs.sandbox.wire.frames import ANSWER, REQUEST, Ending, Fd, Kind, encode
from libs.sandbox.wire.messages import NO_MEMORY, RunReport, RunRequest

__all__ = ["Runner"]

_LINGER = 0.1
"""Seconds after the end of a shell in which the output of its other processes is part of the result."""


class Runner(ProcessWorker):
    """Serves `run` requests until the supervisor closes the link."""

    def __init__(self, link: Link, shells: Shells) -> None:
        super().__init__(link, shells.pipes)
        self._shells = shells

    def serve(self) -> None:
        """Run commands until the supervisor closes the link."""
        for stream, kind, payload, _ in self._link.frames():
            if kind == Kind.OPEN:
                if not self._run(stream, RunRequest.decode(payload[REQUEST.size :])):
                    self._wait_for_background()
                self._shells.empty()  # for the next command: no process writes to the pipes any more
                self._shells.prepare()
        self._leave()

    def _leave(self) -> None:
        kill_trees(os.getpid())
        os._exit(0)

    def _run(self, stream: int, request: RunRequest) -> bool:
        """Serve one request. Return whether no process of it is left."""
        begun = time.monotonic()
        try:
            shell = self._shells.start(request)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.ENOMEM):
                raise
            return self._end(stream, Ending.BUSY)
        before = memory_kills()  # while the shell starts
        name = f"{self._spill_dir}/{spill_name()}" if request.spills else None
        outputs = {Fd.OUT: Captured(Fd.OUT, request.limit, name and f"{name}.txt")}
        if not request.merge:
            outputs[Fd.ERR] = Captured(Fd.ERR, request.limit, name and f"{name}.stderr.txt")
        exit_code = self._watch(shell, stream, outputs, request.live)
        seconds = time.monotonic() - begun
        self._linger(outputs, request.live)
        if memory_kills() > before:
            fd = Fd.OUT if request.merge else Fd.ERR
            for data in read_waiting(self._pipes[fd][0]):
                outputs[fd].add(data, request.live)
            outputs[fd].add(NO_MEMORY, request.live)
        sent, reports = last_frames(stream, outputs, self._pipes)
        report = RunReport(exit_code, seconds, reports)
        return self._end(stream, Ending.DONE, report.encode(), before=sent)

    def _watch(self, shell: int, stream: int, outputs: dict[int, Captured], live: bool) -> int:
        """Collect output until the shell exits; return its exit code."""
        for ready in self._collect(stream, outputs, live, {self._link.reader: 0}):
            if self._wake in ready and (code := self._reap(shell)) is not None:
                return code if code >= 0 else 128 - code
            if self._link.reader in ready:
                self._leave()
        raise AssertionError

    def _linger(self, outputs: dict[int, Captured], live: bool) -> None:
        """Collect what processes print that end right after their shell, such as that of `> >(tee log)`."""
        readers = {self._pipes[fd][0]: captured for fd, captured in outputs.items()}
        poll = select.poll()
        for descriptor in (*readers, self._wake):
            poll.register(descriptor, select.POLLIN)
        poll.register(self._link.reader, 0)
        until = time.monotonic() + _LINGER
        while not self._childless() and (left := until - time.monotonic()) > 0:
            for descriptor, _ in poll.poll(left * 1000):
                if descriptor == self._link.reader:
                    self._leave()
                if (data := read_some(descriptor)) and descriptor in readers:
                    readers[descriptor].add(data, live)

    def _end(self, stream: int, ending: int, report: bytes = b"", *, before: bytes = b"") -> bool:
        idle = self._childless()
        self._link.send(before + encode(stream, Kind.END, ANSWER.pack(ending, idle) + report))
        return idle

    def _childless(self) -> bool:
        self._reap(None)
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return SUBREAPERS or not self._shells.written_to()
        return False

    def _wait_for_background(self) -> None:
        """Wait until the background processes have ended. Drop their output."""
        poll = select.poll()
        for descriptor in (*(reader for reader, _ in self._pipes.values()), self._wake):
            poll.register(descriptor, select.POLLIN)
        poll.register(self._link.reader, 0)
        while not self._childless():
            for descriptor, event in poll.poll():
                if descriptor == self._link.reader:
                    self._leave()
                if not read_some(descriptor) and event & select.POLLHUP:
                    poll.unregister(descriptor)
        self._link.send(encode(0, Kind.IDLE))
