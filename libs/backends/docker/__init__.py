"""Offers a hardened Docker container as a deepagents backend, and builds its image.

In come commands and file operations of deepagents. Out come results as deepagents expects them, and live
output.
"""

from __future__ import annotations

from libs.backends.docker.build_context import host_certificates
from libs.backends.docker.docker_backend import DockerExecutionBackend
from libs.backends.docker.host_inputs import mounted_packages
from libs.backends.docker.live_stream import live_output
from libs.backends.docker.sandbox_image import ImageInfo, ensure_image, image_id, image_state, require_image
from libs.sandbox import (
    DockerUnavailable,
    ImageMissing,
    SandboxBusy,
    SandboxDied,
    SandboxError,
    SandboxLimits,
)

__all__ = [
    "DockerExecutionBackend",
    "DockerUnavailable",
    "ImageInfo",
    "ImageMissing",
    "SandboxBusy",
    "SandboxDied",
    "SandboxError",
    "SandboxLimits",
    "ensure_image",
    "host_certificates",
    "image_id",
    "image_state",
    "live_output",
    "mounted_packages",
    "require_image",
]
