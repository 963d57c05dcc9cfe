"""A container ends with its owner, and no other program touches it."""

from __future__ import annotations

import json
import os
import signal
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import docker
import docker.errors
import psutil
import pytest

from libs.sandbox.docker import remove_stray_volumes, volume, volumes
from libs.sandbox.docker.strays import NAME_LABEL, OWNER_LABEL, remove_strays
from libs.sandbox.process_owner import owner_label
from tests.load.left import containers
from tests.support.programs import finished, python
from tests.support.sandboxes import IMAGE
from tests.support.waiting import eventually

pytestmark = pytest.mark.docker

GONE = 1.0
"""Seconds within which a container ends after its owner."""


def owner(root: Path, name: str) -> str:
    """Return a program that owns a container with a running command."""
    return f"""
        import threading
        from pathlib import Path
        from libs.backends.docker import DockerExecutionBackend

        backend = DockerExecutionBackend(Path({str(root)!r}), image={IMAGE!r}, name={name!r})
        backend.execute("echo kept > kept; sleep 600 & true")
        threading.Thread(target=backend.execute, args=("sleep 600",), daemon=True).start()
        print(backend.sandbox.container_name, flush=True)
        input()
        backend.close()
    """


def engine_delay(docker_client: docker.DockerClient, root: Path, name: str) -> float:
    """Return the seconds until the Engine lists a killed container as ended: no deadline can be shorter."""
    with python(owner(root, name)) as process:
        assert process.stdout is not None
        container = process.stdout.readline().strip()
        killed = time.monotonic()
        docker_client.api.kill(container)
        eventually(lambda: "running" not in containers(name).values())
        seconds = time.monotonic() - killed
        process.communicate("\n", timeout=30)
    return seconds


def leave(docker_client: docker.DockerClient, name: str, label: str, *, started: bool) -> str:
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


def dead_label() -> str:
    return finished("from libs.sandbox.process_owner import owner_label; print(owner_label())").strip()


class TestOwner:
    """A container lives as long as its owner."""

    @pytest.mark.parametrize(
        "number",
        [
            signal.SIGKILL,
            *(pytest.param(end, marks=pytest.mark.thorough) for end in (signal.SIGTERM, signal.SIGINT)),
        ],
    )
    def test_container_ends_with_its_owner(
        self, tmp_path: Path, name: str, number: signal.Signals, docker_client: docker.DockerClient
    ) -> None:
        delay = engine_delay(docker_client, tmp_path / "killed", name)
        took = []
        for attempt in range(3):  # one of three may be late on a busy machine
            name = f"owner-{os.urandom(4).hex()}"
            with python(owner(tmp_path / str(attempt), name)) as process:
                assert process.stdout is not None
                container = process.stdout.readline().strip()
                assert containers(name) == {container: "running"}
                died = time.monotonic()
                process.send_signal(number)
                if number != signal.SIGKILL:  # the program cleans up first
                    process.wait(10)
                    died = time.monotonic()
                eventually(lambda: "running" not in containers(name).values())  # noqa: B023
                took.append(time.monotonic() - died - delay)
                process.wait(10)
                process.stdout.read()
            eventually(lambda: containers(name) == {})  # noqa: B023
            assert (tmp_path / str(attempt) / "kept").read_text() == "kept\n"
            if sum(each < GONE for each in took) == 2:
                break
        assert sorted(took)[1] < GONE, took
        assert max(took) < 4 * GONE

    @pytest.mark.thorough
    def test_forked_child_does_not_keep_the_container_alive(self, tmp_path: Path, name: str) -> None:
        """The child starts its own container. Closing it leaves the parent's container alone."""
        script = f"""
            import os, sys, time
            from pathlib import Path
            from libs.backends.docker import DockerExecutionBackend

            backend = DockerExecutionBackend(Path({str(tmp_path)!r}), image={IMAGE!r}, name={name!r})
            backend.execute("echo kept > kept")
            print(backend.sandbox.container_name, flush=True)
            if os.fork() == 0:
                said = backend.execute("cat kept").output.splitlines()[-1]
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

    @pytest.mark.thorough
    def test_sweep_of_another_program_keeps_live_containers(
        self, tmp_path: Path, name: str, docker_client: docker.DockerClient
    ) -> None:
        with python(owner(tmp_path / "one", name)) as first:
            assert first.stdout is not None
            container = first.stdout.readline().strip()
            stray = leave(docker_client, f"{name}-stray", dead_label(), started=False)
            with python(owner(tmp_path / "two", name)) as second:
                assert second.stdout is not None
                other = second.stdout.readline().strip()
                eventually(lambda: stray not in containers(f"{name}-stray"))
                remove_strays(docker_client)
                assert containers(name) == {container: "running", other: "running"}
                second.communicate("\n", timeout=30)
            assert containers(name) == {container: "running"}
            first.communicate("\n", timeout=30)
        assert containers(name) == {}


class TestSweep:
    """Only containers of a program that is certainly gone are removed."""

    def test_sweep_removes_only_containers_of_dead_owners(
        self, name: str, docker_client: docker.DockerClient
    ) -> None:
        dead = dead_label()
        unknown = json.dumps({**json.loads(dead), "boot": "another machine"})
        labels = {"mine": owner_label(), "unknown": unknown, "malformed": "no JSON", "odd": '{"pid": -1}'}
        odd = json.dumps({**json.loads(dead), "pid": -1})
        try:
            created = leave(docker_client, name, dead, started=False)
            running = leave(docker_client, name, dead, started=True)
            kept = {leave(docker_client, name, label, started=False) for label in (*labels.values(), odd)}
            removed = remove_strays(docker_client)
            assert not kept & set(removed)
            # Another program of this machine may have been the one that removed them.
            eventually(lambda: not {created, running} & set(containers(name)))
            assert set(containers(name)) == kept
        finally:
            for left in containers(name):
                docker_client.api.remove_container(left, force=True)

    def test_only_unused_volumes_of_dead_owners_and_of_this_process_are_removed(
        self, name: str, docker_client: docker.DockerClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        dead = dead_label()
        unknown = json.dumps({**json.loads(dead), "boot": "another boot"})
        api = docker_client.api

        def leave_volume(container: str, owner: str) -> str:
            labels = volume("/workspace", container)["VolumeOptions"]["Labels"]
            return str(api.create_volume(labels={**labels, OWNER_LABEL: owner})["Name"])

        def left(volumes: set[str]) -> set[str]:
            return volumes & {each["Name"] for each in api.volumes()["Volumes"]}

        with python(
            "from libs.sandbox.process_owner import owner_label; print(owner_label(), flush=True); input()"
        ) as living:
            assert living.stdout is not None
            gone = {leave_volume(f"{name}-1", dead), leave_volume(f"{name}-2", owner_label())}
            kept = {
                leave_volume(f"{name}-starts", owner_label()),
                leave_volume(name, living.stdout.readline()),
            }
            young = leave_volume(name, unknown)
            try:
                remove_stray_volumes(docker_client, {f"{name}-starts"})
                assert left({*gone, *kept, young}) == {*kept, young}
                monkeypatch.setattr(volumes, "_UNUSED", timedelta())
                remove_stray_volumes(docker_client, {f"{name}-starts"})
                assert left({*kept, young}) == kept
            finally:
                for each in left({*gone, *kept, young}):
                    api.remove_volume(each)
            living.communicate("\n", timeout=30)
