"""Runs a sandbox as one Docker container, and finds the Docker Engine.

In come limits, mounts and a workspace folder. Out comes a sandbox that is one container, owned by one
connection. Containers whose owner is gone are removed.
"""

from __future__ import annotations

from libs.sandbox.docker.container import DockerSandbox
from libs.sandbox.docker.container_config import OWN_VARIABLES
from libs.sandbox.docker.engine import DEFAULT_SOCKET, connect, endpoint, shared_client
from libs.sandbox.docker.engine_errors import build_hint, explained
from libs.sandbox.docker.ownership import give_to_sandbox
from libs.sandbox.docker.scratch_container import ScratchSandbox
from libs.sandbox.docker.strays import OWNER_LABEL, THREAD_LABEL, WORKSPACE_LABEL, name_of

__all__ = [
    "DEFAULT_SOCKET",
    "OWNER_LABEL",
    "OWN_VARIABLES",
    "THREAD_LABEL",
    "WORKSPACE_LABEL",
    "DockerSandbox",
    "ScratchSandbox",
    "build_hint",
    "connect",
    "endpoint",
    "explained",
    "give_to_sandbox",
    "name_of",
    "shared_client",
]
