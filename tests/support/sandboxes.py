"""The two kinds of sandbox, in a container and as a local process, and helpers for both."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from libs.sandbox import RunResult, SandboxLimits
from libs.sandbox.docker.container import DockerSandbox
from libs.sandbox.host.channel_sandbox import ChannelSandbox
from libs.sandbox.host.local_sandbox import LocalSandbox

__all__ = [
    "DOCKER",
    "GONE",
    "IMAGE",
    "LIMIT",
    "NEW_INTERPRETER",
    "NEW_SANDBOX",
    "ON_BOTH",
    "RUNTIME",
    "SLOWER",
    "Session",
    "alive",
    "folder",
    "in_time",
    "machine_delay",
    "make_sandbox",
    "mark",
    "on_host",
]

IMAGE = os.environ.get("SANDBOX_IMAGE", "code-execution-agent")
RUNTIME = os.environ.get("SANDBOX_RUNTIME") or None
"""The OCI runtime in the tests of commands, attacks and interpreters: see `tests/integration/gvisor.py`."""
SLOWER = 8 if RUNTIME == "runsc" else 1
"""How many times slower the runtime is with many processes or files.

Tests multiply their deadlines by this number. Where a time limit of the sandbox itself would be exceeded,
they divide the number of files or folders by it.
"""
LIMIT = 50_000
"""Most characters of an output."""
GONE = 0.5
"""Seconds after a deadline until all processes of a command are gone."""
DOCKER = pytest.param("docker", marks=pytest.mark.docker)
ON_BOTH = pytest.mark.parametrize("sandbox", ["local", DOCKER], indirect=True, scope="module")
"""Runs a test on both kinds of sandbox, also in `make test`."""


def make_sandbox(kind: str, root: Path, limits: SandboxLimits = SandboxLimits()) -> ChannelSandbox:
    """Make a sandbox of the kind `local` or `docker`."""
    if kind == "local":
        return LocalSandbox(root, limits=limits)
    return DockerSandbox(root, image=IMAGE, runtime=RUNTIME, name="behaviour", limits=limits)


def folder(sandbox: ChannelSandbox) -> str:
    """Return the working directory of commands."""
    return str(sandbox.root) if isinstance(sandbox, LocalSandbox) else "/workspace"


def on_host(sandbox: ChannelSandbox, path: str) -> Path:
    """Return the path of a workspace file on the host."""
    assert isinstance(sandbox, LocalSandbox | DockerSandbox)
    return sandbox.root / path


def mark() -> str:
    """Return a unique number of seconds for `sleep`, to find the process by."""
    return str(random.randint(10**8, 10**9))


def alive(sandbox: ChannelSandbox, number: str) -> list[str]:
    """Return processes with the number in their arguments. The pattern does not match pgrep itself."""
    return sandbox.run(f"pgrep -af '[{number[0]}]{number[1:]}'").output.splitlines()


def in_time(late: list[float], seconds: float) -> bool:
    """Return whether at least two values are below `seconds`: of three, the median is."""
    return sum(each < seconds for each in late) >= 2


def machine_delay(sandbox: ChannelSandbox, seconds: float) -> float:
    """Return by how many seconds a `sleep` is late now: what this machine adds to every deadline."""
    begun = time.monotonic()
    assert sandbox.run(f"sleep {seconds}").exit_code == 0
    return time.monotonic() - begun - seconds


NEW_INTERPRETER = (
    "[a new interpreter runs this block: variables and imports of earlier blocks are lost, "
    "and what they have left running may have ended]\n"
)
"""First line of a block's output if the variables of earlier blocks are lost."""
NEW_SANDBOX = (
    "[a new sandbox runs this: files outside of the workspace and programs in the background are gone]\n"
)
"""First line of an output if the thread's latest call was in another sandbox."""


class Session:
    """Run blocks in one interpreter session. The variable `kept` shows whether the interpreter lives."""

    def __init__(self, sandbox: ChannelSandbox) -> None:
        self.sandbox = sandbox
        self.name = str(random.random())
        self("kept = 1")

    def __call__(self, code: str, timeout: float = 20) -> RunResult:
        return self.sandbox.run_python(code, session=self.name, timeout=timeout)

    def lives(self) -> bool:
        return self("kept").output == "1\n"
