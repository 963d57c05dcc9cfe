"""Removes containers whose owner process is gone, and dead containers. A label names the owner."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from libs.sandbox.docker.engine_errors import explained
from libs.sandbox.errors import SandboxError
from libs.sandbox.process_owner import owner_gone

if TYPE_CHECKING:
    import docker

__all__ = [
    "NAME_LABEL",
    "OWNER_LABEL",
    "THREAD_LABEL",
    "WORKSPACE_LABEL",
    "name_of",
    "remove_strays",
    "sweep_once",
]

logger = logging.getLogger(__name__)

_swept = threading.Lock()

OWNER_LABEL = "code-agent.owner"
NAME_LABEL = "code-agent.name"
WORKSPACE_LABEL = "code-agent.workspace"
THREAD_LABEL = "code-agent.thread"
"""The thread of the sandbox. A container that was started as a spare has no such label."""


def name_of(listed: dict[str, Any]) -> str:
    """Return a container's name from the Engine's list, or its id while it is being removed."""
    names = listed["Names"] or [listed["Id"][:12]]
    return str(names[0]).lstrip("/")


def remove_strays(client: docker.DockerClient) -> list[str]:
    """Remove the containers whose owner is gone, and those that are dead: they can only be removed.

    A container is dead if its removal has failed, or its Engine was killed meanwhile. If the Engine refuses
    one removal, the others are still removed.

    Returns:
        The names of the removed containers.

    Raises:
        DockerUnavailable: the Engine does not answer.
    """
    import docker.errors

    removed: list[str] = []
    with explained():
        found: list[dict[str, Any]] = client.api.containers(all=True, filters={"label": OWNER_LABEL})
        for item in found:
            if item["State"] == "dead" or owner_gone(item["Labels"][OWNER_LABEL]):
                try:
                    client.api.remove_container(item["Id"], force=True)
                except docker.errors.APIError as error:
                    # The container is gone, or "removal is already in progress".
                    if error.status_code not in (404, 409):
                        logger.warning("the stray container %s is not removed: %s", name_of(item), error)
                        continue
                removed.append(name_of(item))
    return removed


def sweep_once(client: docker.DockerClient) -> None:
    """Remove containers of killed programs, in the background and once in this process."""
    if _swept.acquire(blocking=False):
        threading.Thread(target=_sweep, args=(client,), name="sandbox-sweep", daemon=True).start()


def _sweep(client: docker.DockerClient) -> None:
    try:
        if removed := remove_strays(client):
            logger.info("removed containers of programs that are gone: %s", ", ".join(removed))
    except SandboxError as error:
        logger.warning("could not look for containers of programs that are gone: %s", error)
