"""Removes containers, at once or when the Engine answers again."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from libs.sandbox.docker.engine import ask
from libs.sandbox.errors import SandboxError

if TYPE_CHECKING:
    import docker

__all__ = ["STOP_SECONDS", "remove_now", "remove_owed", "wait_until_removed"]

STOP_SECONDS = 5.0
"""Seconds to wait until a container is gone, and for the answer to a removal."""
_GOING = (404, 409)
"""Statuses: the container does not exist, or its removal is in progress."""

_owed: dict[str, docker.DockerClient] = {}
"""Container that is still to be removed -> its Engine, which did not answer."""
_lock = threading.Lock()


def wait_until_removed(client: docker.DockerClient, container: str) -> None:
    """Wait until a container has ended and is gone. A container that stays is killed and removed.

    Takes at most 5 seconds if the Engine answers, and 10 seconds if it hangs.
    """
    path = f"/containers/{container}/wait"
    try:
        answer = ask(client, "POST", path, seconds=STOP_SECONDS, condition="removed")
    except SandboxError:
        pass
    else:
        if answer.ok or answer.status_code in _GOING:
            return
    remove_now(client, container)


def remove_now(client: docker.DockerClient, container: str) -> None:
    """Kill and remove a container, if it exists. If the Engine fails, `remove_owed` tries again later."""
    try:
        answer = ask(client, "DELETE", f"/containers/{container}", seconds=STOP_SECONDS, force="1")
    except SandboxError:
        pass
    else:
        if answer.ok or answer.status_code in _GOING:
            return
    with _lock:
        _owed[container] = client


def remove_owed(client: docker.DockerClient) -> None:
    """Remove, in the background, the containers that this Engine failed to remove before.

    A container that never started does not remove itself, and no other program removes it while its owner
    lives.
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
