"""Forks a worker from the supervisor, with a pipe in each direction (standard library only).

The first worker is forked before the supervisor's module is loaded, so its shell starts early. Each worker
loads only the modules that it needs.
"""

from __future__ import annotations

import os
import sys

from libs.sandbox.guest.workers.shells import Shells
from libs.sandbox.wire.frames import Worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["fork_worker"]

_PAUSE = 0.1
"""Seconds that a file worker waits before it loads its modules, unless a request comes."""


def fork_worker(kind: int, descriptors: Iterable[int]) -> tuple[int, int, int] | None:
    """Start a worker. Return its process id, the descriptor to read from and the descriptor to write to.

    None if no process or descriptor is available.

    Args:
        descriptors: open descriptors of this process, which the worker closes.
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
    """In the fork: serve requests until the process ends. The connection to the host is closed."""
    try:
        null = os.open("/dev/null", os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        os.close(null)
        # Lower priority, so that a fork bomb leaves CPU time for the supervisor and the host.
        os.nice(5)
        _serve(kind, reader, writer)
    except Exception:  # noqa: BLE001 - a fork must not return into the supervisor's own loop
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
    os._exit(0)


def _serve(kind: int, reader: int, writer: int) -> None:
    if kind == Worker.RUN:
        # The shell starts while the other modules load.
        shells = Shells()
        shells.prepare()
    from libs.sandbox.guest.workers.frame_pipes import Gone, Link

    link = Link(reader, writer)
    try:
        if kind == Worker.RUN:
            from libs.sandbox.guest.workers.command_worker import Runner

            Runner(link, shells).serve()
        elif kind == Worker.FILE:
            # Do not load these modules while a new sandbox runs its first command: they need more CPU time.
            link.wait(_PAUSE)
            from libs.sandbox.guest.files.file_worker import FileWorker

            FileWorker(link).serve()
        else:
            from libs.sandbox.guest.interpreter.python_worker import Interpreter

            Interpreter(link).serve()
    except (BrokenPipeError, Gone):
        pass  # the supervisor is gone, or has dismissed this worker
