"""The containers that work on one workspace: which there are, whose they are, and their removal."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from libs.sandbox.engine import connect
from libs.sandbox.explain import explained
from libs.sandbox.strays import OWNER_LABEL, WORKSPACE_LABEL, is_stray, name_of

__all__ = ["Container", "containers", "remove"]


@dataclass(frozen=True, slots=True)
class Container:
    """One sandbox."""

    name: str
    state: str
    """As the Engine says, such as `Up 3 minutes`."""
    alive: bool
    """Whether the program that owns it still runs, or may: one of another machine cannot be looked up."""


def containers(workspace: Path) -> list[Container]:
    """Every sandbox of a workspace, those that are left over included, sorted by name.

    Raises:
        DockerUnavailable: no Engine answers.
    """
    label = f"{WORKSPACE_LABEL}={workspace.resolve()}"
    with closing(connect(timeout=10)) as client, explained():
        found: list[dict[str, Any]] = client.api.containers(all=True, filters={"label": label})
    return sorted(
        (
            Container(name_of(item), item["Status"], not is_stray(item["Labels"][OWNER_LABEL]))
            for item in found
        ),
        key=lambda container: container.name,
    )


def remove(names: Sequence[str]) -> None:
    """Remove containers, running or not; one that is gone already is no error.

    Raises:
        DockerUnavailable: no Engine answers, or it refuses.
    """
    import docker.errors

    with closing(connect()) as client, explained():
        for name in names:
            try:
                client.api.remove_container(name, force=True)
            except docker.errors.APIError as error:
                # Not there any more, or its removal is under way.
                if error.status_code not in (404, 409):
                    raise
