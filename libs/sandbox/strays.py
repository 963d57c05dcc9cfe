"""Which containers belong to a program that is gone, so that only those are swept."""

from __future__ import annotations

import json
import logging
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from libs.sandbox.explain import explained

if TYPE_CHECKING:
    import docker

__all__ = [
    "NAME_LABEL",
    "OWNER_LABEL",
    "THREAD_LABEL",
    "WORKSPACE_LABEL",
    "is_stray",
    "name_of",
    "owner_label",
    "owner_lives",
    "remove_strays",
]

logger = logging.getLogger(__name__)

OWNER_LABEL = "code-agent.owner"
NAME_LABEL = "code-agent.name"
WORKSPACE_LABEL = "code-agent.workspace"
THREAD_LABEL = "code-agent.thread"
"""Whose sandbox it is, where it was started for a thread: a spare that was taken later has no such label."""


@cache
def _here() -> dict[str, str]:
    """This boot of this machine, and the namespace that its process ids count in."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:  # not Linux
        boot, namespace = f"{psutil.boot_time():.0f}", ""
    return {"boot": boot, "namespace": namespace}


def owner_label() -> str:
    """Who owns a container made now: this process, told apart from a later one with the same id."""
    pid = os.getpid()
    owner: dict[str, object] = {"pid": pid, "start": psutil.Process(pid).create_time(), **_here()}
    if (ticks := _ticks(pid)) is not None:
        owner["ticks"] = ticks
    return json.dumps(owner, sort_keys=True)


def _ticks(pid: int) -> int | None:
    """When a process began, in clock ticks since the machine did; None where that is not told.

    The time of day at which it began is no sure sign: that is reckoned from a clock that may be put right.
    See proc(5), stat.
    """
    try:
        # The second field is the command in brackets and may hold anything, brackets and spaces too.
        return int(Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def is_stray(label: str) -> bool:
    """Whether the owner that a label names is certainly gone.

    An owner on another machine, in another process namespace or before the last boot cannot be looked up
    from here: its containers are left alone.
    """
    return _found(label) is False


def owner_lives(label: str) -> bool:
    """Whether the owner that a label names is certainly there."""
    return _found(label) is True


def _found(label: str) -> bool | None:
    """Whether the owner is there; None where that cannot be told from here."""
    try:
        owner = json.loads(label)
        pid, start, ticks = int(owner["pid"]), float(owner["start"]), owner.get("ticks")
        if {name: owner[name] for name in ("boot", "namespace")} != _here():
            return None
    except (ValueError, OverflowError, KeyError, TypeError):
        return None
    try:
        process = psutil.Process(pid)
        # A zombie has ended; that nobody has collected it yet changes nothing.
        ended = process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
        if ended:
            return False
        if isinstance(ticks, int) and (now := _ticks(pid)) is not None:
            return ticks == now
        return abs(process.create_time() - start) <= 1.0
    except psutil.NoSuchProcess:
        return False
    except (psutil.AccessDenied, ValueError):
        return None


def name_of(listed: dict[str, Any]) -> str:
    """The name of a container in the Engine's list; the id of one that lost it, as it is being removed."""
    names = listed["Names"] or [listed["Id"][:12]]
    return str(names[0]).lstrip("/")


def remove_strays(client: docker.DockerClient) -> list[str]:
    """Remove the containers of owners that are gone. One that the Engine does not remove keeps no other.

    Returns:
        The names of those removed.

    Raises:
        DockerUnavailable: the Engine does not answer.
    """
    import docker.errors

    removed: list[str] = []
    with explained():
        found: list[dict[str, Any]] = client.api.containers(all=True, filters={"label": OWNER_LABEL})
        for item in found:
            if is_stray(item["Labels"][OWNER_LABEL]):
                try:
                    client.api.remove_container(item["Id"], force=True)
                except docker.errors.APIError as error:
                    # Gone by itself meanwhile, or about to: "removal is already in progress".
                    if error.status_code not in (404, 409):
                        logger.warning("the stray container %s is not removed: %s", name_of(item), error)
                        continue
                removed.append(name_of(item))
    return removed
