"""Kills a page before it uses up the memory of the sandbox.

At its memory limit a sandbox can hang for minutes, because the kernel drops the code of programs from memory
and reads the code from disk again. The process that the kernel kills at last may be the wrong one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

from skills.browser._processes import family

__all__ = ["heap_megabytes", "limit", "spare_this", "watch"]

_GROUPS = (  # cgroup version 2 and 1: file of the limit, file of the usage, and lines to add up
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.stat", ("anon", "shmem")),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.stat",
        ("total_rss", "total_shmem"),
    ),
)
_UNLIMITED = 1 << 50
_PAUSE = 0.2
_RESERVE = (0.15, 200 << 20, 0.4)
"""Memory to keep free: a share of the limit, a minimum in bytes, and a maximum share."""
_GREEDY = 0.25
"""Share of the limit; a smaller page is not killed."""
_SCORE = 250


def limit() -> int | None:
    """Return the memory limit of the sandbox in bytes, or None if unknown."""
    for file, _, _ in _GROUPS:
        with contextlib.suppress(OSError, ValueError):
            if (number := int(Path(file).read_text())) < _UNLIMITED:
                return number
    return None


def used() -> int:
    """Return the used bytes that the kernel cannot reclaim: memory of programs, and files in memory."""
    for _, file, names in _GROUPS:
        with contextlib.suppress(OSError, ValueError):
            lines = (line.partition(" ") for line in Path(file).read_text().splitlines())
            return sum(int(number) for name, _, number in lines if name in names)
    return 0


def heap_megabytes() -> int | None:
    """Return the limit for JavaScript in one page: half of the limit of the sandbox."""
    return None if (most := limit()) is None else most // 2 >> 20


def spare_this() -> None:
    """Make the kernel kill a page (score 300) before the server, the driver and Chromium."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(_SCORE))


async def watch() -> None:
    """Kill the largest page whenever the sandbox is about to run out of memory."""
    most = limit()
    while most is not None and (bound := most - _reserve(most)):
        await asyncio.sleep(_PAUSE)
        if used() > bound:
            sizes = {process.pid: size for process in family() if (size := _renderer_bytes(process.pid))}
            if sizes and (size := max(sizes.values())) > most * _GREEDY:
                [pid] = [pid for pid in sizes if sizes[pid] == size][:1]
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def _reserve(most: int) -> float:
    part, least, largest = _RESERVE
    return min(max(part * most, least), largest * most)


def _renderer_bytes(pid: int) -> int:
    """Return the memory of a process that shows pages; 0 for other processes."""
    with contextlib.suppress(OSError):
        folder = Path("/proc", str(pid))
        if b"--type=renderer" in (folder / "cmdline").read_bytes():
            fields = (line.split() for line in (folder / "status").read_text().splitlines())
            return sum(int(field[1]) << 10 for field in fields if field[0] in ("RssAnon:", "RssShmem:"))
    return 0
