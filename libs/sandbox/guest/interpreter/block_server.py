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
from os import _exit, close, dup, dup2, fstat, getpid, kill, set_blocking
from signal import SIGRTMAX
from typing import Any, Final

from libs.sandbox.guest.interpreter.block_calls import attempt, write
from libs.sandbox.guest.interpreter.block_session import FAILED, Session

__builtins__ = dict(vars(builtins))  # type: ignore[assignment]
"""A copy, because a block may replace names in the module `builtins`."""

_HEADER: Final = struct.Struct("!II8s8s")
"""Header of a block: the length of the list of command folders, the length of the block, the mark with which
the output begins, and the mark with which the answer must begin. See `python_worker.py`."""
_BROKEN: Final = b"[a block has broken the code of the interpreter itself, or a process wrote to its pipes]\n"
_ERRORS: Final = ("surrogateescape", "surrogateescape", "backslashreplace")
"""What Python does with text that is not UTF-8, in descriptors 0 to 2 of the container."""
_TAKEN: Final = SIGRTMAX
"""Ends the interpreter if a block has closed or replaced its descriptors. See `python_worker.py`."""


def serve(reader: int, writer: int) -> None:
    """Serve blocks until the descriptor `reader` ends. Answers go to `writer`.

    If a block has changed this program so much that a block cannot be served, the program says so and exits.
    """
    say, end, broken, failed = os.write, _exit, _BROKEN, FAILED  # a block may clear this module
    try:
        _serve(reader, writer)
    except BaseException:
        say(2, broken)
        end(failed)


def _serve(reader: int, writer: int) -> None:
    os.set_inheritable(reader, False)
    os.set_inheritable(writer, False)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("500")  # the kernel kills this process before the supervisor when memory runs out
    # Saved, because a block may close or replace descriptors 0 to 2.
    saved = [dup(0), dup(1), dup(2)]
    pipes = {number: fstat(number).st_ino for number in (reader, writer, *saved)}
    own = getpid()
    # A signal handler of a block may fork while this process waits. The child must not read the next block.
    open_numbers = [reader, writer]
    os.register_at_fork(after_in_child=lambda: _close_all(open_numbers))
    session = Session(saved[2])
    while header := session.read(reader, _HEADER.size):
        folders, length, begin, mark = _HEADER.unpack(header)
        attempt(_look_for_commands, session.read(reader, folders).decode("utf-8", "surrogateescape"))
        source = session.read(reader, length).decode("utf-8", "replace")
        _restore_all(saved)  # a thread of an earlier block may have closed or replaced them meanwhile
        session.flush()  # what threads have printed since the last block
        write(saved[2], begin)
        status = session.run(source)
        session.flush()
        if getpid() != own:
            _exit(status)  # a forked child must not run the next block
        if attempt(_taken, pipes):
            # The answer could reach a file of the block, and no other block could come.
            attempt(kill, own, _TAKEN)
            _exit(FAILED)
        attempt(set_blocking, reader, True)
        _restore_all(saved)
        session.flush()  # what a block has printed after it closed a descriptor
        write(writer, mark + bytes([status]))


def _close_all(numbers: list[int]) -> None:
    # Once: a forked child may open a file that gets one of the numbers, and fork again.
    while numbers:
        attempt(close, numbers.pop())


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


def _restore_all(saved: list[int]) -> None:
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        attempt(_restore, saved[number], number, name)


def _restore(saved: int, number: int, name: str) -> None:
    """Restore a descriptor and its stream."""
    # A block that has closed standard input may have opened a file, which then got descriptor 0.
    if number or not attempt(fstat, number):
        dup2(saved, number)
    if not attempt(_is_usable, getattr(sys, name, None), number):
        # Not the encoding of the locale, which a block may have set.
        mode, errors = "w" if number else "r", _ERRORS[number]
        stream = open(number, mode, buffering=1, encoding="utf-8", errors=errors, closefd=False)
        setattr(sys, name, stream)


def _is_usable(stream: Any, number: int) -> bool:
    # A block may have prepared an input for later blocks. Their output must reach the descriptor.
    return not stream.closed and (number == 0 or stream.fileno() == number)
