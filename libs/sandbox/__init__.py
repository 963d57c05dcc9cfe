"""The engine: a computer that answers commands. It knows nothing of LangChain."""

from libs.sandbox.errors import DockerUnavailable, ImageMissing, SandboxBusy, SandboxDied, SandboxError
from libs.sandbox.limits import SandboxLimits
from libs.sandbox.protocol import FileFailed, OnOutput, RunResult, Sandbox
from libs.sandbox.redact import Redact

__all__ = [
    "DockerUnavailable",
    "FileFailed",
    "ImageMissing",
    "OnOutput",
    "Redact",
    "RunResult",
    "Sandbox",
    "SandboxBusy",
    "SandboxDied",
    "SandboxError",
    "SandboxLimits",
]
