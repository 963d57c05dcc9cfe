"""Labels that name the process which owns a container or a command, distinct from a later process."""

from __future__ import annotations

import json
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from functools import cache
from pathlib import Path

import psutil

__all__ = ["label_in", "name_with", "owner_gone", "owner_label", "owner_lives"]


@cache
def _here() -> dict[str, str]:
    """Return ids of this boot and of this process namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:  # not Linux
        boot, namespace = f"{psutil.boot_time():.0f}", ""
    return {"boot": boot, "namespace": namespace}


def owner_label() -> str:
    """Return a label that names this process, distinct from a later process with the same id."""
    pid = os.getpid()
    return json.dumps({"pid": pid, "began": _start(psutil.Process(pid)), **_here()}, sort_keys=True)


def name_with(label: str, ending: str) -> str:
    """Return a file name with a label in it."""
    return f"{urlsafe_b64encode(label.encode()).decode()}.{ending}"


def label_in(name: str) -> str:
    """Return the label in a name of `name_with`; empty for other names."""
    try:
        return urlsafe_b64decode(name.partition(".")[0]).decode()
    except ValueError:
        return ""


def _start(process: psutil.Process) -> float:
    """Return the start of a process: on Linux in clock ticks since boot, because the clock may be set."""
    try:
        # The second field is the command in brackets, and may contain brackets and spaces. See proc(5), stat.
        stat = Path(f"/proc/{process.pid}/stat").read_text("utf-8", "replace")
        return int(stat.rpartition(")")[2].split()[19])
    except FileNotFoundError:  # not Linux
        return process.create_time()


def owner_gone(label: str) -> bool:
    """Return whether the owner that a label names is certainly gone.

    An owner on another machine, in another process namespace or before the last boot counts as unknown.
    """
    return _found(label) is False


def owner_lives(label: str) -> bool:
    """Return whether the owner that a label names certainly lives."""
    return _found(label) is True


def _found(label: str) -> bool | None:
    """Return whether the owner lives; None if unknown."""
    try:
        owner = json.loads(label)
        pid, start = int(owner["pid"]), float(owner["began"])
        if {name: owner[name] for name in ("boot", "namespace")} != _here():
            return None
    except (ValueError, OverflowError, KeyError, TypeError):
        return None
    try:
        process = psutil.Process(pid)
        # A zombie has ended, although its parent has not collected it.
        ended = process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
        return not ended and abs(_start(process) - start) < 1
    except (psutil.NoSuchProcess, ProcessLookupError):
        return False
    except (psutil.AccessDenied, ValueError, OSError):
        return None
