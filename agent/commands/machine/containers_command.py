"""Lists and removes the containers of one workspace."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from libs.sandbox import owner_gone
from libs.sandbox.docker import OWNER_LABEL, WORKSPACE_LABEL, connect, explained, name_of

__all__ = ["Container", "containers", "remove"]


@dataclass(frozen=True, slots=True)
class Container:
    """One sandbox."""

    name: str
    state: str
    """The Engine's words, such as `Up 3 minutes`."""
    alive: bool
    """Whether the owning program runs; True for an owner on another machine, which cannot be checked."""


def containers(workspace: Path) -> list[Container]:
    """Return every sandbox of a workspace, also left over ones, sorted by name.

    Raises:
        DockerUnavailable: no Engine answers.
    """
    label = f"{WORKSPACE_LABEL}={workspace.resolve()}"
    with closing(connect(timeout=10)) as client, explained():
        found: list[dict[str, Any]] = client.api.containers(all=True, filters={"label": label})
    return sorted(
        (
            Container(name_of(item), item["Status"], not owner_gone(item["Labels"][OWNER_LABEL]))
            for item in found
        ),
        key=lambda container: container.name,
    )


def remove(names: Sequence[str]) -> None:
    """Remove containers, running or not. A missing container is not an error.

    Raises:
        DockerUnavailable: no Engine answers, or it refuses.
    """
    import docker.errors

    with closing(connect()) as client, explained():
        for name in names:
            try:
                client.api.remove_container(name, force=True)
            except docker.errors.APIError as error:
                # 404: missing. 409: the removal is in progress.
                if error.status_code not in (404, 409):
                    raise
