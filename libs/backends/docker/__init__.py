"""A hardened Docker container as a deepagents backend."""

from libs.backends.docker.backend import TOOL_CALL_ID, DockerExecutionBackend
from libs.sandbox import (
    DockerUnavailable,
    ImageMissing,
    SandboxBusy,
    SandboxDied,
    SandboxError,
    SandboxLimits,
)

__all__ = [
    "TOOL_CALL_ID",
    "DockerExecutionBackend",
    "DockerUnavailable",
    "ImageMissing",
    "SandboxBusy",
    "SandboxDied",
    "SandboxError",
    "SandboxLimits",
]
