"""Runs a sandbox as one Docker container, and finds the Docker Engine.

In come limits, mounts and a workspace folder. Out comes a sandbox that is one container, owned by one
connection. Containers whose owner is gone are removed.
"""

from __future__ import annotations

from libs.sandbox.docker.attach import AttachedTransport, attached_container
from libs.sandbox.docker.container import DockerSandbox
from libs.sandbox.docker.container_config import HOSTNAME, OWN_VARIABLES, bind, hardened_config, variables
from libs.sandbox.docker.engine import DEFAULT_SOCKET, answering_client, ask, connect, endpoint, shared_client
from libs.sandbox.docker.engine_errors import RUNTIME_HINT, build_hint, explained
from libs.sandbox.docker.ownership import give_to_sandbox
from libs.sandbox.docker.runtimes import check_runtime, process_limit
from libs.sandbox.docker.scratch_container import ScratchSandbox
from libs.sandbox.docker.strays import (
    NAME_LABEL,
    OWNER_LABEL,
    THREAD_LABEL,
    WORKSPACE_LABEL,
    name_of,
    sweep_once,
)
from libs.sandbox.docker.volumes import remove_stray_volumes, volume

__all__ = [
    "DEFAULT_SOCKET",
    "HOSTNAME",
    "NAME_LABEL",
    "OWNER_LABEL",
    "OWN_VARIABLES",
    "RUNTIME_HINT",
    "THREAD_LABEL",
    "WORKSPACE_LABEL",
    "AttachedTransport",
    "DockerSandbox",
    "ScratchSandbox",
    "answering_client",
    "ask",
    "attached_container",
    "bind",
    "build_hint",
    "check_runtime",
    "connect",
    "endpoint",
    "explained",
    "give_to_sandbox",
    "hardened_config",
    "name_of",
    "process_limit",
    "remove_stray_volumes",
    "shared_client",
    "sweep_once",
    "variables",
    "volume",
]
