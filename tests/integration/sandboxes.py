"""A sandbox in a container and one that is a plain process, and what is asked about both."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from libs.sandbox import SandboxLimits
from libs.sandbox.base import ChannelSandbox
from libs.sandbox.container import DockerSandbox
from libs.sandbox.local import LocalSandbox

__all__ = [
    "DOCKER",
    "GONE",
    "IMAGE",
    "LIMIT",
    "alive",
    "folder",
    "in_time",
    "make_sandbox",
    "mark",
    "on_host",
]

IMAGE = os.environ.get("SANDBOX_IMAGE", "code-execution-agent")
LIMIT = 50_000
"""Characters of an output that are shown (S5)."""
GONE = 0.5
"""Seconds after a deadline within which nothing of a command may be left (S4)."""
DOCKER = pytest.param("docker", marks=pytest.mark.docker)


def make_sandbox(kind: str, root: Path, limits: SandboxLimits = SandboxLimits()) -> ChannelSandbox:
    """One of the kind `local` or `docker`."""
    if kind == "local":
        return LocalSandbox(root, limits=limits)
    return DockerSandbox(root, image=IMAGE, name="behaviour", limits=limits)


def folder(sandbox: ChannelSandbox) -> str:
    """Where commands run, as they see it."""
    return str(sandbox.root) if isinstance(sandbox, LocalSandbox) else "/workspace"


def on_host(sandbox: ChannelSandbox, path: str) -> Path:
    """A file of the workspace as this side sees it."""
    assert isinstance(sandbox, LocalSandbox | DockerSandbox)
    return sandbox.root / path


def mark() -> str:
    """A number of seconds to sleep that no other process sleeps."""
    return str(random.randint(10**8, 10**9))


def alive(sandbox: ChannelSandbox, number: str) -> list[str]:
    """Processes whose arguments hold the number; the pattern does not find the search itself."""
    return sandbox.run(f"pgrep -af '[{number[0]}]{number[1:]}'").output.splitlines()


def in_time(late: list[float], seconds: float) -> bool:
    """Whether two were less than `seconds` late: of three, the median."""
    return sum(each < seconds for each in late) >= 2
