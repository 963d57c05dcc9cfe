"""Reads the container's process limit, and how often it was reached (standard library only)."""

from __future__ import annotations

__all__ = ["most_processes", "processes", "refused_forks"]

_FOLDERS = ("/sys/fs/cgroup", "/sys/fs/cgroup/pids")
"""Of cgroup v2 and v1."""


def most_processes() -> int | None:
    """Return how many processes and threads may exist at once. None: no limit is known."""
    limit = _read("pids.max")
    return int(limit) if limit.isdigit() else None


def processes() -> int:
    """Return how many processes and threads exist, ended ones included. 0 if the kernel does not count."""
    count = _read("pids.current")
    return int(count) if count.isdigit() else 0


def refused_forks() -> int:
    """Return how often the limit has refused a fork. 0 if the kernel does not count."""
    _, _, count = _read("pids.events").partition(b" ")
    return int(count) if count.isdigit() else 0


def _read(name: str) -> bytes:
    """Return the first line of a file of the cgroup, or nothing."""
    for folder in _FOLDERS:
        try:
            with open(f"{folder}/{name}", "rb") as file:
                return file.readline().strip()
        except OSError:
            continue
    return b""
