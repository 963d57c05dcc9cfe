"""The engine: a computer that answers commands. It knows nothing of LangChain."""

from libs.sandbox.errors import DockerUnavailable, ImageMissing, SandboxBusy, SandboxDied, SandboxError
from libs.sandbox.limits import SandboxLimits
from libs.sandbox.protocol import FileFailed, OnOutput, RunResult, Sandbox

__all__ = [
    "DockerUnavailable",
    "FileFailed",
    "ImageMissing",
    "OnOutput",
    "RunResult",
    "Sandbox",
    "SandboxBusy",
    "SandboxDied",
    "SandboxError",
    "SandboxLimits",
]
