"""Errors of a sandbox that cannot start, and that nothing is left of it."""

from __future__ import annotations

import asyncio
import io
import time
from pathlib import Path

import docker
import docker.errors
import pytest
from blockbuster import blockbuster_ctx

from libs.backends.docker import DockerExecutionBackend
from tests.load.left import containers
from tests.servers.engine_proxy import EngineProxy
from tests.support.programs import finished
from tests.support.sandboxes import IMAGE
from tests.support.waiting import eventually


def build(docker_client: docker.DockerClient, tag: str, text: str) -> None:
    file = io.BytesIO(text.encode())
    events = list(docker_client.api.build(fileobj=file, tag=tag, rm=True, forcerm=True, decode=True))
    assert not any("error" in event for event in events), events


class TestWithoutDocker:
    """Errors name the cause and what to do."""

    def test_import_and_creation_need_no_engine(self, tmp_path: Path) -> None:
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

    def test_missing_engine_is_named(self, tmp_path: Path) -> None:
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
            DOCKER_HOST="tcp://127.0.0.1:1",
        )
        assert "No Docker Engine answers" in told
        assert "DOCKER_HOST is tcp://127.0.0.1:1: unset it" in told

    @pytest.mark.docker
    def test_missing_image_is_named(self, tmp_path: Path, name: str) -> None:
        with DockerExecutionBackend(tmp_path, image="no-such-image-anywhere", name=name) as backend:
            answer = backend.execute("true")
        assert answer.exit_code == 125
        assert "no-such-image-anywhere" in answer.output
        assert "code-agent setup" in answer.output

    @pytest.mark.docker
    def test_removed_skill_folder_is_named(self, tmp_path: Path, name: str) -> None:
        skills = tmp_path / "skills"
        skills.mkdir()
        with DockerExecutionBackend(
            tmp_path / "workspace", skills_dir=skills, image=IMAGE, name=name
        ) as backend:
            skills.rmdir()
            answer = backend.execute("true")
            assert answer.exit_code == 125
            assert str(skills) in answer.output
            assert containers(name) == {}
            skills.mkdir()
            assert backend.execute("echo on").output == "on\n"

    @pytest.mark.docker
    @pytest.mark.thorough
    async def test_container_that_cannot_start_is_removed(
        self, tmp_path: Path, name: str, docker_client: docker.DockerClient
    ) -> None:
        """The image's first process exits at once. The event loop is not blocked."""
        tag = f"{name}:broken"
        build(docker_client, tag, f'FROM {IMAGE}\nENTRYPOINT ["sh", "-c", "echo broken >&2; exit 3"]\n')
        try:
            with DockerExecutionBackend(tmp_path, image=tag, name=name) as backend:
                begun = time.monotonic()
                with blockbuster_ctx():
                    answer = await backend.aexecute("true")
                assert time.monotonic() - begun < 15
                assert answer.exit_code == 125
                assert "broken" in answer.output
                assert "supervisor did not come up" in answer.output
                assert "code-agent setup" in answer.output
                await asyncio.to_thread(eventually, lambda: containers(name) == {})
        finally:
            docker_client.images.remove(tag, force=True)

    @pytest.mark.docker
    def test_container_without_a_connection_is_removed(
        self, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The Engine's connection breaks between creating and starting a container."""
        with EngineProxy(tmp_path / "socket", break_at=b"/attach?") as proxy:
            monkeypatch.setenv("DOCKER_HOST", proxy.address)
            with DockerExecutionBackend(tmp_path / "workspace", image=IMAGE, name=name) as backend:
                answer = backend.execute("true")
                assert answer.exit_code == 125
                assert "broke off" in answer.output
                assert containers(name) == {}
