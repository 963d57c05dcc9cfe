"""Removing containers: now, or once the Engine answers again."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from libs.sandbox.engine_api import ask
from libs.sandbox.errors import SandboxError

if TYPE_CHECKING:
    import docker

__all__ = ["STOP_SECONDS", "remove_now", "remove_owed", "wait_until_removed"]

STOP_SECONDS = 5.0
"""Seconds for one wait until a container is gone, and for one answer to its removal."""
_GOING = (404, 409)
"""Not there any more; its removal is under way."""

_owed: dict[str, docker.DockerClient] = {}
"""Container -> the Engine that did not answer when it was to be removed."""
_lock = threading.Lock()


def wait_until_removed(client: docker.DockerClient, container: str) -> None:
    """Wait until a container that ends by itself is gone; one that does not is removed.

    Takes 5 seconds at most where the Engine answers, and twice that where it hangs.
    """
    path = f"/containers/{container}/wait"
    try:
        answer = ask(client, "POST", path, seconds=STOP_SECONDS, condition="removed")
    except SandboxError:
        pass
    else:
        if answer.ok or answer.status in _GOING:
            return
    remove_now(client, container)


def remove_now(client: docker.DockerClient, container: str) -> None:
    """Kill and remove a container, if it is still there; where the Engine does not answer, it is owed."""
    try:
        answer = ask(client, "DELETE", f"/containers/{container}", seconds=STOP_SECONDS, force="1")
    except SandboxError:
        pass
    else:
        if answer.ok or answer.status in _GOING:
            return
    with _lock:
        _owed[container] = client


def remove_owed(client: docker.DockerClient) -> None:
    """Remove what this Engine would not remove before. Returns at once; a thread does it, if there is any.

    What was made and never started does not remove itself, and as long as its owner lives no other program
    takes it for a leftover.
    """
    with _lock:
        owed = [container for container, owner in _owed.items() if owner is client]
        for container in owed:
            del _owed[container]
    if owed:
        threading.Thread(target=_remove_all, args=(client, owed), name="sandbox-owed", daemon=True).start()


def _remove_all(client: docker.DockerClient, containers: list[str]) -> None:
    for container in containers:
        remove_now(client, container)
