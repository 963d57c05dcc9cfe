"""What is said when a sandbox cannot begin, and what is left of it then (S11)."""

from __future__ import annotations

import contextlib
import io
import os
import select
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import docker
import docker.errors
import pytest
from blockbuster import blockbuster_ctx

from libs.backends.docker import DockerExecutionBackend
from libs.sandbox.engine import endpoint
from tests.integration.programs import finished
from tests.load.left import containers
from tests.waiting import eventually

IMAGE = "code-execution-agent"


@pytest.fixture
def name() -> str:
    return f"without-{os.urandom(4).hex()}"


def build(docker_client: docker.DockerClient, tag: str, text: str) -> None:
    file = io.BytesIO(text.encode())
    events = list(docker_client.api.build(fileobj=file, tag=tag, rm=True, forcerm=True, decode=True))
    assert not any("error" in event for event in events), events


class TestWithoutDocker:
    """What needs no Docker works without; what needs it says what is wrong and what mends it."""

    def test_importing_and_building_need_none(self, tmp_path: Path) -> None:
        finished(
            f"""
            import pkgutil, importlib
            from pathlib import Path
            import libs.sandbox, libs.backends
            for package in (libs.sandbox, libs.backends):
                for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
                    importlib.import_module(module.name)
            from libs.backends.docker import DockerExecutionBackend
            with DockerExecutionBackend(Path({str(tmp_path / "new")!r})) as backend:
                assert backend.id == "docker-exec-code-execution-agent"
            assert not Path({str(tmp_path / "new")!r}).exists()
            """,
            DOCKER_HOST="unix:///nonexistent",
        )

    @pytest.mark.parametrize("address", ["unix:///nonexistent", "tcp://127.0.0.1:1"])
    def test_no_engine(self, tmp_path: Path, address: str) -> None:
        told = finished(
            f"""
            import asyncio
            from pathlib import Path
            from libs.backends.docker import DockerExecutionBackend
            backend = DockerExecutionBackend(Path({str(tmp_path)!r}))
            answer = backend.execute("true")
            assert answer.exit_code == 125
            assert asyncio.run(backend.aexecute("true")).exit_code == 125
            for error in (backend.ls("/").error, backend.read("/x").error, backend.write("/x", "").error,
                          backend.edit("/x", "a", "b").error, backend.delete("/x").error,
                          backend.glob("*").error, backend.grep("x").error,
                          backend.upload_files([("/x", b"")])[0].error,
                          backend.download_files(["/x"])[0].error):
                assert "Docker" in error, error
            print(answer.output)
            """,
            DOCKER_HOST=address,
        )
        assert "No Docker Engine answers" in told
        assert "systemctl start docker" in told or "Docker Desktop" in told

    @pytest.mark.docker
    def test_a_socket_that_may_not_be_opened(self, tmp_path: Path) -> None:
        if os.geteuid() != 0:
            pytest.skip("needs the right to become another user")
        os.chown(tmp_path, 65534, 65534)
        for parent in tmp_path.parents[:3]:
            if parent.stat().st_uid == 0 and parent != Path("/"):
                parent.chmod(parent.stat().st_mode | 0o011)
        told = finished(
            f"""
            import os
            from pathlib import Path
            import docker, libs.backends.docker.image, libs.sandbox.container, requests, urllib3, psutil
            import docker.errors, docker.context, docker.utils, concurrent.futures
            from libs.backends.docker import DockerExecutionBackend
            os.environ.pop("DOCKER_HOST", None)
            os.environ["HOME"] = "/nonexistent"
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            answer = DockerExecutionBackend(Path({str(tmp_path)!r})).execute("true")
            assert answer.exit_code == 125
            print(answer.output)
            """
        )
        assert "may not be opened" in told
        assert "usermod -aG docker" in told

    @pytest.mark.docker
    def test_no_image(self, tmp_path: Path, name: str) -> None:
        with DockerExecutionBackend(tmp_path, image="no-such-image-anywhere", name=name) as backend:
            answer = backend.execute("true")
        assert answer.exit_code == 125
        assert "no-such-image-anywhere" in answer.output
        assert "code-agent setup" in answer.output

    @pytest.mark.docker
    def test_an_image_of_other_sources(
        self, tmp_path: Path, name: str, docker_client: docker.DockerClient
    ) -> None:
        tag = f"{name}:stale"
        build(docker_client, tag, f"FROM {IMAGE}\nLABEL code-agent.content=other\n")
        try:
            with DockerExecutionBackend(tmp_path, image=tag, name=name) as backend:
                answer = backend.execute("true")
            assert answer.exit_code == 125
            assert "other sources" in answer.output
            assert "code-agent setup" in answer.output
            assert containers(name) == {}
        finally:
            docker_client.images.remove(tag, force=True)

    @pytest.mark.docker
    def test_a_workspace_that_cannot_be(self, tmp_path: Path, name: str) -> None:
        (tmp_path / "file").write_text("x")
        with DockerExecutionBackend(tmp_path / "file", name=name) as backend:
            answer = backend.execute("true")
        assert answer.exit_code == 125
        assert "WORKSPACE_DIR" in answer.output

    @pytest.mark.docker
    def test_a_skill_folder_that_has_gone(self, tmp_path: Path, name: str) -> None:
        skills = tmp_path / "skills"
        skills.mkdir()
        with DockerExecutionBackend(tmp_path / "workspace", skills_dir=skills, name=name) as backend:
            skills.rmdir()
            answer = backend.execute("true")
            assert answer.exit_code == 125
            assert str(skills) in answer.output
            assert containers(name) == {}
            skills.mkdir()
            assert backend.execute("echo on").output == "on\n"

    @pytest.mark.docker
    def test_a_container_that_cannot_start_is_removed(
        self, tmp_path: Path, name: str, docker_client: docker.DockerClient
    ) -> None:
        """An image whose first process ends at once."""
        tag = f"{name}:broken"
        build(docker_client, tag, f'FROM {IMAGE}\nENTRYPOINT ["sh", "-c", "echo broken >&2; exit 3"]\n')
        try:
            with DockerExecutionBackend(tmp_path, image=tag, name=name) as backend:
                begun = time.monotonic()
                answer = backend.execute("true")
                assert time.monotonic() - begun < 15
                assert answer.exit_code == 125
                assert "broken" in answer.output
                assert "supervisor did not come up" in answer.output
                assert "code-agent setup" in answer.output
                eventually(lambda: containers(name) == {})
        finally:
            docker_client.images.remove(tag, force=True)

    @pytest.mark.docker
    async def test_one_that_cannot_start_does_not_hold_up_the_event_loop(
        self, tmp_path: Path, name: str, docker_client: docker.DockerClient
    ) -> None:
        tag = f"{name}:broken"
        build(docker_client, tag, f'FROM {IMAGE}\nENTRYPOINT ["sh", "-c", "sleep 0.2; exit 3"]\n')
        try:
            with DockerExecutionBackend(tmp_path, image=tag, name=name) as backend:
                with blockbuster_ctx():
                    answer = await backend.aexecute("true")
                assert "supervisor did not come up" in answer.output
        finally:
            docker_client.images.remove(tag, force=True)

    @pytest.mark.docker
    def test_a_container_that_cannot_be_attached_to_is_removed(
        self, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An Engine whose connection breaks off between making a container and starting it."""
        with engine_that_breaks_off(b"/attach?", tmp_path / "socket") as address:
            monkeypatch.setenv("DOCKER_HOST", address)
            with DockerExecutionBackend(tmp_path / "workspace", name=name) as backend:
                answer = backend.execute("true")
                assert answer.exit_code == 125
                assert "broke off" in answer.output
                assert containers(name) == {}


@contextlib.contextmanager
def engine_that_breaks_off(at: bytes, path: Path) -> Iterator[str]:
    """The address of the Engine, by way of a socket that drops a connection whose request holds `at`."""
    true = endpoint().removeprefix("unix://")

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.socket(socket.AF_UNIX) as engine:
                engine.connect(true)
                ways = {self.request: engine, engine: self.request}
                while True:
                    for source in select.select(list(ways), [], [])[0]:
                        data = source.recv(65_536)
                        if not data or (source is self.request and at in data):
                            return
                        ways[source].sendall(data)

    with socketserver.ThreadingUnixStreamServer(str(path), Handler) as server:
        server.daemon_threads, server.block_on_close = True, False  # idle connections are kept by the client
        threading.Thread(target=server.serve_forever).start()
        try:
            yield f"unix://{path}"
        finally:
            server.shutdown()
