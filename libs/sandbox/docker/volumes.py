"""Makes the volumes of containers, and removes those that an Engine has left."""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from libs.sandbox.docker.engine_errors import explained
from libs.sandbox.docker.strays import OWNER_LABEL
from libs.sandbox.process_owner import owner_gone, owner_label, owner_lives

if TYPE_CHECKING:
    import docker

__all__ = ["remove_stray_volumes", "volume"]

logger = logging.getLogger(__name__)

_CONTAINER_LABEL: Final = "code-agent.container"
"""The container of a volume."""
_UNUSED: Final = timedelta(minutes=10)
"""A volume of an unknown owner is removed if it is as old as this and no container has it."""


def volume(path: str, container: str) -> dict[str, Any]:
    """Return the mount of a new volume, which the Engine removes together with the container."""
    labels = {OWNER_LABEL: owner_label(), _CONTAINER_LABEL: container}
    return {"Type": "volume", "Target": path, "ReadOnly": False, "VolumeOptions": {"Labels": labels}}


def remove_stray_volumes(client: docker.DockerClient, starting: Collection[str]) -> None:
    """Remove volumes whose container is gone. An Engine that is killed leaves them.

    Args:
        starting: containers that this process is about to create.

    Raises:
        DockerUnavailable: the Engine does not answer.
    """
    import docker.errors

    with explained():
        unused = client.api.volumes(filters={"dangling": True, "label": OWNER_LABEL})["Volumes"] or []
        for found in unused:
            labels = found["Labels"]
            if _is_stray(labels[OWNER_LABEL], labels.get(_CONTAINER_LABEL, ""), found["CreatedAt"], starting):
                try:
                    client.api.remove_volume(found["Name"])
                except docker.errors.APIError as error:
                    logger.info("the stray volume %s is not removed: %s", found["Name"], error)


def _is_stray(owner: str, container: str, created: str, starting: Collection[str]) -> bool:
    if owner == owner_label():
        return container not in starting
    if owner_lives(owner):
        return False
    # The owner of a machine that was switched off is unknown, because it began before the last boot.
    return owner_gone(owner) or datetime.now(UTC) - datetime.fromisoformat(created) > _UNUSED
