"""An Engine that is restarted under a running command (S9): one of the test's own, never the shared one."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import docker
import pytest

from libs.backends.docker import DockerExecutionBackend
from libs.sandbox.engine import connect
from tests.load.breaks import IMAGE, LIMITS, SEED, TIMES, of_thread, under_load
from tests.load.crowd import Crowd, Place
from tests.load.left import Held, eventually_gone

pytestmark = [
    pytest.mark.docker,
    pytest.mark.timeout(600),
    # docker-py leaves the socket of a refused connection to the garbage collector, which tests/conftest.py
    # calls after the module.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


class OwnEngine:
    """dockerd in a network namespace of its own: in the host's it would take away the other one's bridge."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = f"unix://{folder}/docker.sock"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        options = {
            "host": self.socket,
            "data-root": self.folder / "data",
            "exec-root": self.folder / "exec",
            "pidfile": self.folder / "docker.pid",
        }
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                ["unshare", "--net", "dockerd", "--bridge=none", "--iptables=false", "--shutdown-timeout=1"]
                + [f"--{name}={value}" for name, value in options.items()],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + 60
        while not self._answers():
            said = (self.folder / "log").read_text()[-2000:]
            assert self._process.poll() is None, said
            assert time.monotonic() < deadline, said
            time.sleep(0.2)

    def _answers(self) -> bool:
        return not subprocess.run(
            ["docker", "--host", self.socket, "version"], capture_output=True
        ).returncode

    def stop(self) -> None:
        assert self._process
        self._process.terminate()
        self._process.wait(60)

    def load(self, image: str) -> None:
        """Give it an image of the shared Engine."""
        shared = connect()
        own = docker.DockerClient(self.socket, version="auto", timeout=300)
        with tempfile.TemporaryFile(dir=self.folder) as file:
            for chunk in shared.api.get_image(image):  # by this name, whatever other names it has
                file.write(chunk)
            file.seek(0)
            own.images.load(file)
        shared.close()
        own.close()


@pytest.fixture(scope="module")
def engine() -> Iterator[OwnEngine]:
    assert os.geteuid() == 0, "only root can start an Engine; the shared one must not be restarted"
    # Not below pytest's own folder: the path of a socket is short.
    folder = Path(tempfile.mkdtemp(prefix="engine-"))
    engine = OwnEngine(folder)
    engine.start()
    try:
        engine.load(IMAGE)
        yield engine
    finally:
        engine.stop()
        shutil.rmtree(folder)


@pytest.fixture
def backend(
    engine: OwnEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[DockerExecutionBackend]:
    monkeypatch.setenv("DOCKER_HOST", engine.socket)
    with DockerExecutionBackend(tmp_path, name="restarted", image=IMAGE) as backend:
        yield backend


async def test_the_running_command_is_told_and_the_next_one_works(
    engine: OwnEngine, backend: DockerExecutionBackend
) -> None:
    assert (await backend.aexecute("echo kept > kept; echo on")).output == "on\n"
    before = backend.sandbox.container_name  # type: ignore[attr-defined]
    running = asyncio.create_task(backend.aexecute("sleep 60"))
    await asyncio.sleep(0.5)
    await asyncio.to_thread(engine.stop)
    lost = await asyncio.wait_for(running, 20)
    assert lost.exit_code == 125
    assert "The sandbox ended" in lost.output

    meanwhile = await backend.aexecute("true")
    assert meanwhile.exit_code == 125
    assert "No Docker Engine answers" in meanwhile.output

    await asyncio.to_thread(engine.start)
    after = await backend.aexecute("cat kept")
    assert after.output == "kept\n"
    assert backend.sandbox.container_name != before  # type: ignore[attr-defined]
    own = docker.DockerClient(engine.socket, version="auto")
    deadline = time.monotonic() + 20
    while len(left := own.containers.list(all=True, ignore_removed=True)) > 1:
        assert time.monotonic() < deadline, [container.name for container in left]
        await asyncio.sleep(0.2)
    own.close()


# Raised as errors, and kept, these would hold on to the sockets.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_five_restarts_under_load(engine: OwnEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As tests/integration/test_break.py: calls end with a typed error, the next works, nothing is left."""
    monkeypatch.setenv("DOCKER_HOST", engine.socket)
    random = Random(f"{SEED}/engine")
    shared = DockerExecutionBackend(tmp_path / "shared", name="loaded", image=IMAGE, limits=LIMITS)
    threads = DockerExecutionBackend(
        tmp_path / "threads", name="loaded", image=IMAGE, limits=LIMITS, scope="thread"
    )
    with shared:
        shared.execute("true")
    before = Held()

    def restart() -> None:
        engine.stop()
        time.sleep(random.uniform(0.0, 0.5))
        engine.start()

    with shared, threads:
        places = {
            "shared": Place(shared.sandbox, tmp_path / "shared"),
            "one": Place(of_thread(threads, "one"), tmp_path / "threads" / "threads" / "one"),
        }
        with Crowd(places, seed=SEED, threads=1, tasks=1) as crowd:
            under_load(crowd, random, 5 * TIMES, restart, places)
    eventually_gone("loaded")
    before.assert_released()
