"""Sandboxes end with the program that they belong to, and no other does anything to them (S9)."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import docker
import docker.errors
import psutil
import pytest

from libs.sandbox.strays import NAME_LABEL, OWNER_LABEL, owner_label, remove_strays
from tests.integration.programs import finished, python
from tests.load.left import containers
from tests.waiting import eventually

IMAGE = "code-execution-agent"
GONE = 1.0
"""Seconds after its owner's death within which a container is gone (S9)."""


@pytest.fixture
def name() -> str:
    return f"owner-{os.urandom(4).hex()}"


def owner(root: Path, name: str) -> str:
    """Source of a program that owns a container with a command under way."""
    return f"""
        import threading
        from pathlib import Path
        from libs.backends.docker import DockerExecutionBackend

        backend = DockerExecutionBackend(Path({str(root)!r}), name={name!r})
        backend.execute("echo kept > kept; sleep 600 & true")
        threading.Thread(target=backend.execute, args=("sleep 600",), daemon=True).start()
        print(backend.sandbox.container_name, flush=True)
        input()
        backend.close()
    """


@pytest.mark.docker
class TestOwner:
    """A container lives as long as who started it."""

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGABRT])
    def test_it_goes_with_its_owner(self, tmp_path: Path, number: signal.Signals) -> None:
        took = []
        for attempt in range(3):  # one of three may find the machine busy with something else
            name = f"owner-{os.urandom(4).hex()}"
            with python(owner(tmp_path / str(attempt), name)) as process:
                assert process.stdout is not None
                container = process.stdout.readline().strip()
                assert containers(name) == {container: "running"}
                process.send_signal(number)
                begun = time.monotonic()
                eventually(lambda: "running" not in containers(name).values())  # noqa: B023
                took.append(time.monotonic() - begun)
                process.wait(10)
                process.stdout.read()
            eventually(lambda: containers(name) == {})  # noqa: B023
            assert (tmp_path / str(attempt) / "kept").read_text() == "kept\n"
            if sum(each < GONE for each in took) == 2:
                break
        assert sorted(took)[1] < GONE, took
        assert max(took) < 4 * GONE

    def test_an_owner_that_ends_without_closing(self, tmp_path: Path, name: str) -> None:
        script = owner(tmp_path, name).replace("backend.close()", "raise SystemExit")
        assert "close" not in script
        with python(script) as process:
            assert process.stdout is not None
            container = process.stdout.readline().strip()
            assert containers(name) == {container: "running"}
            assert (tmp_path / "kept").read_text() == "kept\n"
            process.communicate("\n", timeout=30)
        assert process.returncode == 0
        eventually(lambda: containers(name) == {})

    def test_a_fork_of_it_keeps_nothing_of_it_alive(self, tmp_path: Path, name: str) -> None:
        """It has a sandbox of its own where it wants one, and ending that leaves its parent's alone."""
        script = f"""
            import os, sys, time
            from pathlib import Path
            from libs.backends.docker import DockerExecutionBackend

            backend = DockerExecutionBackend(Path({str(tmp_path)!r}), name={name!r})
            backend.execute("echo kept > kept")
            print(backend.sandbox.container_name, flush=True)
            if os.fork() == 0:
                said = backend.execute("cat kept").output.strip()
                print(said, backend.sandbox.container_name, flush=True)
                backend.close()
                print(os.getpid(), flush=True)
                time.sleep(600)
            input()
            print(backend.execute("echo goes on").output, flush=True)
            time.sleep(600)
        """
        with python(script) as process:
            assert process.stdout is not None
            assert process.stdin is not None
            container = process.stdout.readline().strip()
            said, other = process.stdout.readline().split()
            assert said == "kept"
            assert other != container
            child = psutil.Process(int(process.stdout.readline()))
            try:
                assert containers(name) == {container: "running"}
                process.stdin.write("\n")
                process.stdin.flush()
                assert process.stdout.readline() == "goes on\n"
                process.kill()
                eventually(lambda: containers(name) == {}, 5)
                assert child.is_running()
            finally:
                child.kill()
                process.kill()

    def test_another_program_leaves_a_live_one_alone(
        self, tmp_path: Path, name: str, docker_client: docker.DockerClient
    ) -> None:
        with python(owner(tmp_path / "one", name)) as first:
            assert first.stdout is not None
            container = first.stdout.readline().strip()
            with python(owner(tmp_path / "two", name)) as second:
                assert second.stdout is not None
                other = second.stdout.readline().strip()
                remove_strays(docker_client)
                time.sleep(1)  # the second sweeps as well
                assert containers(name) == {container: "running", other: "running"}
                second.communicate("\n", timeout=30)
            assert containers(name) == {container: "running"}
            first.communicate("\n", timeout=30)
        assert containers(name) == {}


@pytest.mark.docker
class TestSweep:
    """Only what belongs to a program that is certainly gone is removed."""

    def leave(self, docker_client: docker.DockerClient, name: str, label: str, *, started: bool) -> str:
        created = docker_client.api.create_container(
            IMAGE,
            entrypoint=["sleep", "600"],
            labels={OWNER_LABEL: label, NAME_LABEL: name},
            name=f"{name}-{os.urandom(4).hex()}",
        )
        if started:
            docker_client.api.start(created["Id"])
        details: dict[str, Any] = docker_client.api.inspect_container(created["Id"])
        return details["Name"].lstrip("/")

    def dead_label(self) -> str:
        return finished("from libs.sandbox.strays import owner_label; print(owner_label())").strip()

    def test_what_dead_owners_left_is_removed_and_nothing_else(
        self, name: str, docker_client: docker.DockerClient
    ) -> None:
        dead = self.dead_label()
        unknown = json.dumps({**json.loads(dead), "boot": "another machine"})
        labels = {"mine": owner_label(), "unknown": unknown, "malformed": "no JSON", "odd": '{"pid": -1}'}
        odd = json.dumps({**json.loads(dead), "pid": -1})
        try:
            created = self.leave(docker_client, name, dead, started=False)
            running = self.leave(docker_client, name, dead, started=True)
            kept = {
                self.leave(docker_client, name, label, started=False) for label in (*labels.values(), odd)
            }
            removed = remove_strays(docker_client)
            assert {created, running} <= set(removed)
            assert not kept & set(removed)
            assert set(containers(name)) == kept
        finally:
            for left in containers(name):
                docker_client.api.remove_container(left, force=True)

    def test_a_program_sweeps_once_it_runs(
        self, tmp_path: Path, name: str, docker_client: docker.DockerClient
    ) -> None:
        stray = self.leave(docker_client, f"{name}-stray", self.dead_label(), started=False)
        with python(owner(tmp_path, name)) as process:
            assert process.stdout is not None
            process.stdout.readline()
            eventually(lambda: stray not in containers(f"{name}-stray"))
            process.communicate("\n", timeout=30)
