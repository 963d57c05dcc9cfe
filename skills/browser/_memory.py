"""The memory that the sandbox has, and a watch that no page takes all of it.

At its limit a sandbox can stand still for minutes: the kernel drops the code of programs from memory and
reads it from disk again, and what it ends at last is perhaps not what took the memory. So a page is ended
before.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

from skills.browser._processes import family

__all__ = ["heap_megabytes", "limit", "spare_this", "watch"]

_GROUPS = (  # of version 2, and of version 1: the limit, what is used, and what of that can be taken back
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
"""Left for the code of programs and for files: a part of the limit, bytes at least, and a part at most."""
_GREEDY = 0.25
"""Of the limit: a page that has less is not the one at fault."""
_SCORE = 250


def limit() -> int | None:
    """How many bytes the sandbox may use; None where that is not known."""
    for file, _, _ in _GROUPS:
        with contextlib.suppress(OSError, ValueError):
            if (number := int(Path(file).read_text())) < _UNLIMITED:
                return number
    return None


def used() -> int:
    """How many bytes of that cannot be taken back: what programs hold, and files that are in memory alone."""
    for _, file, names in _GROUPS:
        with contextlib.suppress(OSError, ValueError):
            lines = (line.partition(" ") for line in Path(file).read_text().splitlines())
            return sum(int(number) for name, _, number in lines if name in names)
    return 0


def heap_megabytes() -> int | None:
    """How much JavaScript may hold in one page: half of the limit. Chromium goes by the machine's."""
    return None if (most := limit()) is None else most // 2 >> 20


def spare_this() -> None:
    """Have the kernel end a page (300) before the server, the driver and Chromium itself."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(_SCORE))


async def watch() -> None:
    """End the page that holds the most whenever the sandbox is about to run out."""
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
    """What a process holds that shows pages; 0 for others."""
    with contextlib.suppress(OSError):
        folder = Path("/proc", str(pid))
        if b"--type=renderer" in (folder / "cmdline").read_bytes():
            fields = (line.split() for line in (folder / "status").read_text().splitlines())
            return sum(int(field[1]) << 10 for field in fields if field[0] in ("RssAnon:", "RssShmem:"))
    return 0
