"""Finding the Docker Engine, and the errors if it is missing."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import docker.errors
import pytest

from agent.commands.machine.doctor import check_all, doctor
from agent.commands.machine.setup_command import build_image, ensure_engine
from libs.sandbox.docker.engine import connect, endpoint
from libs.sandbox.docker.engine_errors import explain
from libs.sandbox.errors import DockerUnavailable

NOBODY = 65534


@pytest.fixture(autouse=True)
def clean_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))


@pytest.fixture
def missing_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    address = f"unix://{tmp_path}/none.sock"
    monkeypatch.setenv("DOCKER_HOST", address)
    return address


@pytest.fixture
def silent_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "docker.sock"))
        listener.listen()
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
        yield listener


def _make_context(config: Path, name: str, host: str) -> None:
    meta = config / "contexts" / "meta" / hashlib.sha256(name.encode()).hexdigest()
    meta.mkdir(parents=True)
    docker_endpoint = {"Host": host, "SkipTLSVerify": False}
    (meta / "meta.json").write_text(
        json.dumps({"Name": name, "Metadata": {}, "Endpoints": {"docker": docker_endpoint}})
    )


def test_docker_host_overrides_the_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _make_context(tmp_path, "elsewhere", "unix:///elsewhere.sock")
    (tmp_path / "config.json").write_text('{"currentContext": "elsewhere"}')
    assert endpoint() == "unix:///elsewhere.sock"
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    assert endpoint() == "tcp://127.0.0.1:1"


def test_refused_connection_is_named(silent_socket: socket.socket) -> None:
    silent_socket.close()
    with pytest.raises(DockerUnavailable, match="refused"):
        connect()


@pytest.mark.parametrize("address", ["http://host", "ssh://host", "tcp://host:port", "nonsense"])
def test_unusable_address_is_not_blamed_on_the_engine(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("DOCKER_HOST", address)
    with pytest.raises(DockerUnavailable, match=r"^No Docker Engine can be asked: ") as caught:
        connect()
    assert f"DOCKER_HOST is {address}: unset it" in caught.value.hint


def test_lack_of_descriptors_is_not_blamed_on_the_engine(silent_socket: socket.socket) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Path(os.devnull).open() as free:
        resource.setrlimit(resource.RLIMIT_NOFILE, (free.fileno(), limits[1]))
    try:
        with pytest.raises(DockerUnavailable, match="too many files are open") as caught:
            connect()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert "ulimit -n" in caught.value.hint


def test_silent_engine_is_named(silent_socket: socket.socket) -> None:
    with pytest.raises(DockerUnavailable, match="too long"):
        connect(timeout=0.2)


def test_socket_without_permission_is_named(silent_socket: socket.socket) -> None:
    Path(silent_socket.getsockname()).chmod(0)
    program = f"""
        import os, docker, docker.context, docker.errors, docker.utils, requests
        from libs.sandbox.docker.engine import connect
        from libs.sandbox.errors import DockerUnavailable
        if os.geteuid() == 0:
            os.setuid({NOBODY})
        try:
            connect()
        except DockerUnavailable as error:
            print(error, error.hint)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True
    )
    assert "may not be opened by this user" in done.stdout
    assert "sudo usermod -aG docker $USER" in done.stdout


def test_full_disk_of_the_engine_is_named() -> None:
    text = "write /var/lib/docker/tmp/x: no space left on device"
    for error in (docker.errors.APIError("500", explanation=text), docker.errors.BuildError(text, iter(()))):
        explained = explain(error)
        assert isinstance(explained, DockerUnavailable)
        assert "docker system df" in explained.hint


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("failed to add inotify watch: no space left on device", "max_user_watches"),
        ("mkdir /sys/fs/cgroup/docker/x: no space left on device", "control groups"),
    ],
)
def test_limit_of_the_kernel_is_no_full_disk(text: str, told: str) -> None:
    explained = explain(docker.errors.APIError("500", explanation=text))
    assert "disk" not in str(explained)
    assert told in explained.hint


def test_failed_start_blames_no_runtime() -> None:
    """The Engine names its runtime in every failure of a start."""
    text = "OCI runtime create failed: error setting rlimit type 7: operation not permitted"
    error = docker.errors.APIError("500", explanation=text)
    hint = explain(error).hint
    assert hint.startswith("Look for the cause with")
    assert "If SANDBOX_RUNTIME is set: Unset SANDBOX_RUNTIME" in hint


def test_setup_without_an_engine_is_refused(missing_socket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    with pytest.raises(DockerUnavailable, match="its socket is not there") as failure:
        ensure_engine(said.append)
    assert f"DOCKER_HOST is {missing_socket}: unset it" in failure.value.hint
    with pytest.raises(DockerUnavailable, match="socket is not there"):
        build_image("code-execution-agent", said.append)
    assert said == []
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    usual = explain(FileNotFoundError()).hint
    assert "systemctl start docker" in usual or sys.platform != "linux"


def test_doctor_reports_a_missing_engine_and_continues(missing_socket: str, tmp_path: Path) -> None:
    checks = {check.name: check for check in doctor(workspace=tmp_path / "workspace", image="x")}
    assert not checks["Docker Engine"].ok
    assert checks["Docker Engine"].hint
    assert checks["workspace"].ok
    assert not (tmp_path / "workspace").exists()
    (tmp_path / "file").touch()
    checks = {check.name: check for check in doctor(workspace=tmp_path / "file", image="x")}
    assert not checks["workspace"].ok
    assert "WORKSPACE_DIR" in checks["workspace"].hint


def test_doctor_only_warns_of_a_missing_engine_where_threads_run_on_a_cluster(
    missing_socket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MODEL", "scripted:none.yaml")
    assert [check.warning for check in check_all() if check.name == "Docker Engine"] == [False]
    monkeypatch.setenv("SANDBOX_SCOPE", "thread")
    monkeypatch.setenv("SANDBOX_CLUSTER", "auto")
    [engine] = [check for check in check_all() if check.name == "Docker Engine"]
    assert (engine.ok, engine.warning) == (False, True)


def test_importing_needs_no_docker() -> None:
    modules = (
        "agent.commands.machine.setup_command, agent.commands.machine.doctor, "
        "libs.sandbox.docker.engine, libs.backends.docker.sandbox_image"
    )
    program = f"import sys, {modules}; print('docker' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
