"""The OCI runtime of a container is the chosen one, without a silent fallback."""

from __future__ import annotations

from pathlib import Path

import docker
import pytest

from libs.backends.docker import DockerExecutionBackend
from tests.load.left import containers
from tests.support.sandboxes import IMAGE, RUNTIME

pytestmark = pytest.mark.docker


@pytest.mark.parametrize("chosen", [False, True], ids=["default", "chosen"])
def test_runtime_is_used(tmp_path: Path, name: str, docker_client: docker.DockerClient, chosen: bool) -> None:
    known = docker_client.info()
    default = known["DefaultRuntime"]
    other = next((runtime for runtime in known["Runtimes"] if runtime != default), default)
    runtime = other if chosen else None
    with DockerExecutionBackend(tmp_path, runtime=runtime, image=IMAGE, name=name) as backend:
        assert backend.execute("echo on").output == "on\n"
        details = docker_client.api.inspect_container(getattr(backend.sandbox, "container_name", ""))
    assert details["HostConfig"]["Runtime"] == (runtime or default)


def test_start_leaves_the_hosts_null_device(tmp_path: Path, name: str) -> None:
    """gVisor changes the owner of the files that a container gets as its input and output."""

    def null() -> tuple[int, int, int]:
        found = Path("/dev/null").stat()
        return found.st_mode, found.st_uid, found.st_gid

    before = null()
    with DockerExecutionBackend(tmp_path, runtime=RUNTIME, image=IMAGE, name=name) as backend:
        assert backend.execute("echo on").output == "on\n"
        assert null() == before


def test_missing_runtime_is_an_error(tmp_path: Path, name: str) -> None:
    with DockerExecutionBackend(tmp_path, image=IMAGE, runtime="no-such-runtime", name=name) as backend:
        answer = backend.execute("true")
        assert answer.exit_code == 125
        assert "no-such-runtime" in answer.output
        assert "make setup RUNTIME=runsc" in answer.output
    assert containers(name) == {}
