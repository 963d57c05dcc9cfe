"""The processes of the browser: found and ended by force, whatever state they are in.

Chromium leaves the session of the process that has started it, and what a killed process leaves is adopted by
another. So they are known by their parents, by their sessions, and by the folder they work in.
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
"""Locked by the one server there is, for as long as it lives; `record` says in it what belongs to it."""
WORK = FOLDER / "work"
"""Profile and scratch of Chromium, of no use once it has ended."""
_PROFILE = b"--user-data-dir=" + os.fsencode(WORK)
_GONE_SECONDS = 5


class Process(NamedTuple):
    """One process: its id, its state as `ps` shows it ("T": stopped), parent, session, time of its start."""

    pid: int
    state: str
    parent: int
    session: int
    start: int


def family() -> list[Process]:
    """What this process has started, and what that has, and so on; without itself."""
    alive, known = list(_every()), {os.getpid()}
    _add_children(known, alive)
    return [process for process in alive if process.pid in known and process.pid != os.getpid()]


def record() -> None:
    """Write down what belongs to this server, for whoever has to end it."""
    leaders = {os.getpid(), *(process.session for process in family())}
    started = [f"{process.pid}/{process.start}\n" for process in _every() if process.pid in leaders]
    LOCK.write_text("".join(started))


def end_all() -> None:
    """End the browser and all that belongs to it by force, but for this process; wait until they are gone."""
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
    """The same, where there is no server any more: what one has left. False: there is one."""
    if not FOLDER.exists():
        return True
    with LOCK.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # while it is held, none begins
        except BlockingIOError:
            return False
        end_all()
        return True


def _recorded() -> dict[int, int]:
    """Leaders of the sessions that belong to the browser, each with the time of its start."""
    with contextlib.suppress(OSError, ValueError):
        words = [word.partition("/") for word in LOCK.read_text().split()]
        return {int(pid): int(start) for pid, _, start in words}
    return {}


def _ours(leaders: dict[int, int], known: set[int]) -> list[int]:
    """Those that have not ended. What is found is added to `known`: next time its parent may be gone."""
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
    """All that have not ended."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                # Behind its name, which stands in parentheses and may hold anything.
                told = (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
                if told[0] not in "ZX":
                    yield Process(int(folder.name), told[0], int(told[1]), int(told[3]), int(told[19]))


def _has_profile(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return _PROFILE in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False
