"""Serves the blocks of the live interpreter: reads a block, runs it, answers (standard library only).

A block runs in this process, so it can change almost every module. Therefore this module keeps its own
references to the functions that it calls, and the interpreter survives when such a call raises.
"""

from __future__ import annotations

import builtins
import contextlib
import os
import struct
import sys
from os import _exit, dup, dup2, fstat, getpid
from typing import Any, Final

from libs.sandbox.guest.interpreter.block_session import FAILED, Session, attempt, write

__builtins__ = dict(vars(builtins))  # type: ignore[assignment]
"""A copy, because a block may replace names in the module `builtins`."""

_HEADER: Final = struct.Struct("!II8s")
"""Header of a block: the length of the list of command folders, the length of the block, and the mark with
which the answer must begin. See `python_worker.py`."""
_TAKEN: Final = b"[the block closed or replaced descriptors of the interpreter]\n"


def serve(reader: int, writer: int) -> None:
    """Serve blocks until the descriptor `reader` ends. Answers go to `writer`."""
    os.set_inheritable(reader, False)
    os.set_inheritable(writer, False)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("500")  # the kernel kills this process before the supervisor when memory runs out
    # Saved, because a block may close or replace descriptors 1 and 2.
    saved = [dup(1), dup(2)]
    pipes = {number: fstat(number).st_ino for number in (reader, writer, *saved)}
    own = getpid()
    session = Session(saved[1])
    while header := session.read(reader, _HEADER.size):
        folders, length, mark = _HEADER.unpack(header)
        attempt(_look_for_commands, os.fsdecode(session.read(reader, folders)))
        source = session.read(reader, length).decode("utf-8", "replace")
        status = session.run(source)
        session.flush()
        if getpid() != own:
            _exit(status)  # a forked child must not run the next block
        if attempt(_taken, pipes):
            write(2, _TAKEN)
            _exit(FAILED)  # the answer could reach a file of the block, and no other block could come
        for number, name in enumerate(("stdout", "stderr"), start=1):
            attempt(_restore, saved[number - 1], number, name)
        write(writer, mark + bytes([status]))


def _look_for_commands(folders: str) -> None:
    """Add folders to PATH, which an earlier block may have changed."""
    path = os.environ.get("PATH", os.defpath).split(":")
    if new := [folder for folder in folders.split(":") if folder and folder not in path]:
        os.environ["PATH"] = ":".join(path + new)


def _taken(pipes: dict[int, int]) -> bool:
    """Return whether a descriptor is closed, or is no more the pipe with this inode."""
    try:
        return any(fstat(number).st_ino != inode for number, inode in pipes.items())
    except OSError:
        return True


def _restore(saved: int, number: int, name: str) -> None:
    """Restore a descriptor and its stream."""
    dup2(saved, number)
    if not attempt(_writes_to, getattr(sys, name, None), number):
        setattr(sys, name, open(number, "w", buffering=1, errors="replace", closefd=False))


def _writes_to(stream: Any, number: int) -> bool:
    return not stream.closed and stream.fileno() == number
