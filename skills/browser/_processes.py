"""Finds and kills all processes of the browser, in any state.

Chromium leaves the session of its parent, and another process adopts the children of a killed process. So the
processes are found by their parents, their sessions, and the folder of their profile.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["FOLDER", "LOCK", "WORK", "Process", "end_all", "end_rest", "family", "record"]

FOLDER = Path.home() / ".cache" / "browser"
LOCK = FOLDER / "lock"
"""Locked by the only server while the server lives; contains the sessions that `record` writes."""
WORK = FOLDER / "work"
"""Profile and temporary files of Chromium."""
_PROFILE = b"--user-data-dir=" + os.fsencode(WORK)
_GONE_SECONDS = 5


class Process(NamedTuple):
    """One process: id, state as in `ps` ("T": stopped), parent, session, and start time."""

    pid: int
    state: str
    parent: int
    session: int
    start: int


def family() -> list[Process]:
    """Return all descendants of this process."""
    alive, known = list(_every()), {os.getpid()}
    _add_children(known, alive)
    return [process for process in alive if process.pid in known and process.pid != os.getpid()]


def record() -> None:
    """Write the sessions of this server into the lock file, for a program that has to kill them."""
    leaders = {os.getpid(), *(process.session for process in family())}
    started = [f"{process.pid}/{process.start}\n" for process in _every() if process.pid in leaders]
    LOCK.write_text("".join(started))


def end_all() -> None:
    """Kill all processes of the browser except this one, and wait for their end."""
    leaders, known = _recorded(), set[int]()
    deadline = time.monotonic() + _GONE_SECONDS
    while left := _ours(leaders, known):
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            return
        time.sleep(0.02)


def end_rest() -> bool:
    """Kill the processes of a dead server. Return False if a server lives."""
    if not FOLDER.exists():
        return True
    with LOCK.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # no server starts while this lock is held
        except BlockingIOError:
            return False
        end_all()
        return True


def _recorded() -> dict[int, int]:
    """Return the leaders of the recorded sessions with their start times."""
    with contextlib.suppress(OSError, ValueError):
        words = [word.partition("/") for word in LOCK.read_text().split()]
        return {int(pid): int(start) for pid, _, start in words}
    return {}


def _ours(leaders: dict[int, int], known: set[int]) -> list[int]:
    """Return living processes of the browser, and add them to `known`, because parents may be gone later."""
    alive = [process for process in _every() if process.pid != os.getpid()]
    others = {process.pid for process in alive if leaders.get(process.pid, process.start) != process.start}
    for process in alive:
        if (process.session in leaders and process.session not in others) or _has_profile(process.pid):
            known.add(process.pid)
    _add_children(known, alive)
    return [process.pid for process in alive if process.pid in known]


def _add_children(known: set[int], alive: list[Process]) -> None:
    while more := {process.pid for process in alive if process.parent in known} - known:
        known |= more


def _every() -> Iterator[Process]:
    """Yield all living processes."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):  # the process has ended
                # The fields follow the name, which is in parentheses and may contain any character.
                fields = (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
                if fields[0] not in "ZX":
                    yield Process(
                        int(folder.name), fields[0], int(fields[1]), int(fields[3]), int(fields[19])
                    )


def _has_profile(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return _PROFILE in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False
