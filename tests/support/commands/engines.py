"""The Docker Engines that run the sandboxes of a test: the host's, or those of a cluster's nodes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import docker

from libs.sandbox.docker.container import DockerSandbox
from libs.sandbox.docker.strays import NAME_LABEL
from libs.sandbox.host import ChannelSandbox
from tests.support.waiting import eventually

__all__ = ["Engines"]


class Engines:
    """Finds containers on one or more Engines."""

    def __init__(self, clients: Sequence[docker.DockerClient]) -> None:
        self._clients = clients

    def containers(self, name: str) -> dict[str, str]:
        """Return name and state of the containers of a backend, in any state."""
        wanted = {"label": f"{NAME_LABEL}={name}"}
        found = [item for each in self._clients for item in each.api.containers(all=True, filters=wanted)]
        return {item["Names"][0].lstrip("/"): item["State"] for item in found if item["Names"]}

    def kill(self, container: str | None) -> None:
        """Kill a container."""
        self._of(container).api.kill(container)

    def pause(self, container: str | None) -> None:
        """Suspend all processes of a container. On a busy machine, runc may give up the first attempts."""
        engine = self._of(container)

        def is_paused() -> object:
            with suppress(docker.errors.APIError):
                engine.api.pause(container)
            return engine.api.inspect_container(container)["State"]["Paused"]

        eventually(is_paused)

    def inspect(self, container: str | None) -> dict[str, Any]:
        """Return what the Engine knows of a container."""
        return dict(self._of(container).api.inspect_container(container))

    def on_host(self, sandbox: ChannelSandbox, path: str = "") -> Path:
        """Return the path of a workspace file on this machine. On a cluster, the container must run."""
        root = getattr(sandbox, "root", None)
        container = getattr(sandbox, "container_name", None)
        if container and not isinstance(sandbox, DockerSandbox):
            mounts = self.inspect(container)["Mounts"]
            [root] = [mount["Source"] for mount in mounts if mount["Destination"] == "/workspace"]
        assert root
        return Path(root, path)

    def _of(self, container: str | None) -> docker.DockerClient:
        for each in self._clients:
            if each.api.containers(all=True, filters={"name": f"^/{container}$"}):
                return each
        raise AssertionError(f"no Engine has the container {container}")
