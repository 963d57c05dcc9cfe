"""Limits of one sandbox. The kernel and the supervisor enforce them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MAX_TIMEOUT", "SandboxLimits"]

MAX_TIMEOUT = 3600.0
"""Longest time-out of one command, in seconds."""

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """Limits of one sandbox. The defaults suit data work on a laptop.

    Raises:
        ValueError: a limit is out of range; the message names it and the range.
    """

    memory: int = 2048 * _MIB
    """Memory of everything inside, tmpfs included, in bytes. Swap is off."""
    cpus: float = 2.0
    """CPU time per second of wall time."""
    pids: int = 256
    """Processes and threads at once."""
    tmp: int = 256 * _MIB
    """Size of `/tmp`, in bytes. Counts as memory, so it stays at most half of it."""
    timeout: float = 120.0
    """Default time-out of a command, in seconds."""
    output_chars: int = 50_000
    """Characters of output in a result. Longer output loses its middle."""
    open_files: int = 4096
    """Open files of one process."""
    file_size: int = 4096 * _MIB
    """Largest file a process may write, in bytes."""

    def __post_init__(self) -> None:
        bounds: dict[str, tuple[float, float]] = {
            "memory": (64 * _MIB, 2**50),
            "cpus": (0.01, 1024),
            "pids": (32, 4_000_000),
            "tmp": (1 * _MIB, self.memory // 2),
            "timeout": (0.001, MAX_TIMEOUT),
            "output_chars": (1_000, 10_000_000),
            "open_files": (64, 1_048_576),
            "file_size": (1 * _MIB, 2**50),
        }
        for name, (low, high) in bounds.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise ValueError(f"{name} is {value}: it must lie between {low:g} and {high:g}")
