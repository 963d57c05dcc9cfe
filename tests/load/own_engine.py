"""A Docker Engine of a test's own: it can be stopped, killed and held up without harm to the shared one."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import docker

from libs.sandbox.engine import connect

__all__ = ["OwnEngine", "own_engine"]


class OwnEngine:
    """dockerd in a network namespace of its own: in the host's it would take away the other one's bridge."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = f"unix://{folder}/docker.sock"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers; after a kill it does not always come up at once."""
        for attempt in range(3):
            try:
                self._start()
            except AssertionError:
                if attempt == 2:
                    raise
            else:
                return

    def _start(self) -> None:
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

    def kill(self) -> None:
        """At once: its containers are left to themselves, and run until the next start finds them."""
        assert self._process
        self._process.kill()
        self._process.wait(10)

    def hang(self) -> None:
        """From now on it takes connections and answers nothing."""
        assert self._process
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """End `hang`; harmless where it does not."""
        assert self._process
        self._process.send_signal(signal.SIGCONT)

    def _of_its_own(self, what: bytes) -> list[int]:
        """Processes whose command line has both this and the engine's folder."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # ended meanwhile
                line = (entry / "cmdline").read_bytes()
                if what in line and str(self.folder).encode() in line:
                    found.append(int(entry.name))
        return found

    def remove(self) -> None:
        """Everything of it, whatever an Engine that was killed has left."""
        self.go_on()
        self.stop()
        for pid in self._of_its_own(b"containerd"):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for place in reversed([mount for mount in mounts if mount.startswith(f"{self.folder}/")]):
            subprocess.run(["umount", "--lazy", place], check=True)
        shutil.rmtree(self.folder)

    def supervisors(self) -> list[int]:
        """Host process ids of the first processes of its containers, whatever the Engine knows of them.

        The shim that is the parent of each names this Engine's containerd.
        """
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if (
                    entry.name.isdigit()
                    and b"/usr/lib/code-agent/main.pyc" in (entry / "cmdline").read_bytes()
                ):
                    parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                    if str(self.folder).encode() in Path("/proc", parent, "cmdline").read_bytes():
                        found.append(int(entry.name))
            except OSError:
                continue  # ended meanwhile
        return found


@contextmanager
def own_engine(image: str) -> Iterator[OwnEngine]:
    """One that runs, and has this image of the shared one."""
    assert os.geteuid() == 0, "only root can start an Engine; the shared one must not be restarted"
    # Not below pytest's own folder: the path of a socket is short.
    folder = Path(tempfile.mkdtemp(prefix="engine-"))
    engine = OwnEngine(folder)
    engine.start()
    try:
        engine.load(image)
        yield engine
    finally:
        engine.remove()
