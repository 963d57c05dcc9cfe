"""What differs with an OCI runtime that is not the Engine's default."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from libs.sandbox.docker.engine_errors import RUNTIME_HINT, explained
from libs.sandbox.errors import DockerUnavailable
from libs.sandbox.host import Channel, first_command_problem
from libs.sandbox.limits import SandboxLimits

if TYPE_CHECKING:
    import docker

__all__ = ["check_runtime", "process_limit"]

_GVISOR: Final = "runsc"
"""File name of gVisor's runtime."""
_HOST_TASKS: Final = 32
"""Tasks of the host for a process inside gVisor. Measured with up to 250 processes: 7 to 29."""
_MOST_TASKS: Final = 4_000_000
"""A little less than the largest process limit of the kernel."""
_SECONDS: Final = 60.0
"""Time-out of a start, and of the first command."""


def process_limit(client: docker.DockerClient, runtime: str, pids: int) -> int:
    """Return the process limit that the Engine must enforce, so that `pids` processes fit inside.

    With gVisor, the Engine counts gVisor's own processes and threads. At this limit, gVisor ends, and the
    container with it.

    Raises:
        DockerUnavailable: the Engine did not answer.
    """
    with explained():
        known = client.info()["Runtimes"]
    path = PurePosixPath(known.get(runtime, {}).get("path", ""))
    return min(pids * _HOST_TASKS, _MOST_TASKS) if path.name == _GVISOR else pids


def check_runtime(channel: Channel, runtime: str, limits: SandboxLimits) -> None:
    """Wait until the sandbox is ready, and check that commands run.

    Raises:
        SandboxDied: the sandbox ended before it was ready.
        DockerUnavailable: the first command failed.
    """
    if problem := first_command_problem(channel, limits, _SECONDS):
        raise DockerUnavailable(
            f"Commands do not run with the container runtime {runtime!r}: {problem}.", hint=RUNTIME_HINT
        )
