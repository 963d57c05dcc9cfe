"""The engine: a computer that answers commands. It knows nothing of LangChain."""

from libs.sandbox.errors import (
    CommandInterrupted,
    CommandUnderWay,
    DockerUnavailable,
    ImageMissing,
    KeyReused,
    RecordUnavailable,
    SandboxBusy,
    SandboxDied,
    SandboxError,
)
from libs.sandbox.limits import SandboxLimits
from libs.sandbox.protocol import FileFailed, OnOutput, RunResult, Sandbox
from libs.sandbox.redact import Redact

__all__ = [
    "CommandInterrupted",
    "CommandUnderWay",
    "DockerUnavailable",
    "FileFailed",
    "ImageMissing",
    "KeyReused",
    "OnOutput",
    "RecordUnavailable",
    "Redact",
    "RunResult",
    "Sandbox",
    "SandboxBusy",
    "SandboxDied",
    "SandboxError",
    "SandboxLimits",
]
