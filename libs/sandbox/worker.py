"""What a worker is: a fork of the supervisor, with a pipe in and a pipe out (standard library only).

The first is made before the supervisor itself is loaded, so that its shell starts meanwhile. Each loads what
it serves with, and a sandbox's first command waits for no more than that.
"""

from __future__ import annotations

import posix as os
import sys

from libs.sandbox.frames import Worker
from libs.sandbox.shells import Shells

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

__all__ = ["fork_worker"]

_PAUSE: Final = 0.1
"""Seconds that a worker for files waits with getting ready, unless a request comes."""


def fork_worker(kind: int, descriptors: Iterable[int]) -> tuple[int, int, int] | None:
    """A new worker: its process id, and what it is read from and written to. None where none can be made.

    Args:
        descriptors: what this process has open for others; the new one closes it.
    """
    opened: list[int] = []
    try:
        opened += os.pipe()
        opened += os.pipe()
        pid = os.fork()
    except OSError:
        for descriptor in opened:
            os.close(descriptor)
        return None
    to_child, ours_out, ours_in, from_child = opened
    if pid == 0:
        for descriptor in (ours_in, ours_out, *descriptors):
            os.close(descriptor)
        _work(kind, to_child, from_child)
    os.close(to_child)
    os.close(from_child)
    os.set_blocking(ours_in, False)
    os.set_blocking(ours_out, False)
    return pid, ours_in, ours_out


def _work(kind: int, reader: int, writer: int) -> None:
    """In the fork: serve to the end of the process. The host's pipes are out of reach."""
    try:
        null = os.open("/dev/null", os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        os.close(null)
        # A command that forks without end leaves the supervisor and the host some time this way.
        os.nice(5)
        _serve(kind, reader, writer)
    except Exception:  # noqa: BLE001 - a fork must not return into the supervisor's own loop
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
    os._exit(0)


def _serve(kind: int, reader: int, writer: int) -> None:
    if kind == Worker.RUN:
        # The shell starts on another processor, while the rest is loaded.
        shells = Shells()
        shells.prepare()
    from libs.sandbox.link import Gone, Link

    link = Link(reader, writer)
    try:
        if kind == Worker.RUN:
            from libs.sandbox.runner import Runner

            Runner(link, shells).serve()
        elif kind == Worker.FILE:
            # Not while a sandbox that has just been started gets to its first command: loading this takes
            # more of the processor than that.
            link.wait(_PAUSE)
            from libs.sandbox.files import FileWorker

            FileWorker(link).serve()
        else:
            from libs.sandbox.interpreter import Interpreter

            Interpreter(link).serve()
    except (BrokenPipeError, Gone):
        pass  # the supervisor is gone, or has given this worker up
