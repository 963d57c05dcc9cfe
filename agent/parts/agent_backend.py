"""Builds the computer of the agents: the workspace backend with its sandbox."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent.parts.egress_gateway import doors
from agent.parts.mcp_servers import package_folder, server_services
from agent.parts.workspace_captures import captures_of
from agent.secrets import secret_filter, suspected
from agent.settings import COMMANDS, LEARNED, Settings
from libs.backends import WorkspaceBackend
from libs.backends.docker import DockerExecutionBackend
from libs.sandbox import LEARNED_MOUNT, OWN_MOUNT
from libs.sandbox.host import CommandRecords

if TYPE_CHECKING:
    from libs.sandbox.cluster import CheckImage, Cluster

__all__ = ["build_backend"]


def _cluster(settings: Settings) -> Callable[[CheckImage], Cluster] | None:
    """Return what makes the cluster; None if sandboxes run on this machine."""
    address = settings.sandbox_cluster
    if not address:
        return None

    def make(check_image: CheckImage) -> Cluster:
        from libs.sandbox.cluster import Cluster

        return Cluster(
            address,
            check_image,
            memory=settings.sandbox_reserve_memory,
            cpus=settings.sandbox_reserve_cpus,
            wait_seconds=settings.sandbox_wait,
        )

    return make


def build_backend(settings: Settings) -> WorkspaceBackend:
    """Make the agent's computer. Needs no Docker: the container starts at the first command."""
    folders = settings.skill_folders
    if settings.skills_evolve:
        from libs.middleware.skills import SkillOverlay

        Path(LEARNED.parts[0]).mkdir(mode=0o700, exist_ok=True)  # the folder will also hold threads
        SkillOverlay(folders[LEARNED_MOUNT]).make()
    sandbox = DockerExecutionBackend(
        settings.workspace_dir.absolute(),
        skills_dir=folders[OWN_MOUNT],
        extra_skills=[folder for mount, folder in folders.items() if mount != OWN_MOUNT],
        skills_trusted=settings.skills_trusted,
        limits=settings.limits,
        env_allow=settings.env_patterns,
        environment=settings.environment(),
        image=settings.image,
        runtime=settings.sandbox_runtime,
        scope=settings.scope,
        warm=settings.sandbox_warm,
        idle_seconds=settings.sandbox_idle_seconds,
        redact=secret_filter(settings),
        egress=doors(settings, tools=partial(server_services, settings)),
        suspect=suspected,
        records=CommandRecords(COMMANDS),
        servers=package_folder(settings),
        cluster=_cluster(settings),
    )
    backend = WorkspaceBackend(sandbox, read_only=list(folders))
    if settings.travels:
        captures_of(settings, backend)  # fills every sandbox, whoever starts it
    return backend
