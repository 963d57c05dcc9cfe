"""A separate Docker Engine for tests that stop, kill or suspend the Engine."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from libs.sandbox.docker.engine import connect
from tests.support.cluster.namespace_machine import Machine, Program
from tests.support.cluster.shared_image import SharedImage


class OwnEngine:
    """dockerd on a machine of its own. In the host's network it would remove the shared Engine's bridge."""

    def __init__(self, folder: Path, machine: Machine, image: str, *, cgroup: str = "docker") -> None:
        """Describe an Engine.

        Args:
            folder: for the Engine's files. The path must be short, because a socket is in it.
            machine: where the Engine runs. It must be on when the Engine starts.
            image: an image of the shared Engine.
            cgroup: the control group that will have those of the containers.
        """
        self.folder = folder
        self.machine = machine
        self._image = image
        with closing(connect()) as client:
            self._shared = SharedImage(client, image)
        self.run = folder / "run"
        """What a machine loses when it is switched off."""
        self.socket = f"unix://{self.run}/docker.sock"
        self._cgroup = cgroup
        self._program: Program | None = None

    def start(self) -> None:
        """Start the Engine and wait until it has the image. After a kill the first attempt may fail."""
        self._shared.mount(self.machine, self.folder / "data")
        for attempt in range(3):
            try:
                self._start()
            except AssertionError:
                if attempt == 2:
                    raise
            else:
                break
        if not self._succeeds("tag", self._shared.id, self._image):
            self._load(self._image)

    def _start(self) -> None:
        options = {
            "host": self.socket,
            "data-root": self.folder / "data",
            "exec-root": self.run / "exec",
            "pidfile": self.run / "docker.pid",
            "cgroup-parent": f"/{self._cgroup}",
            "exec-opt": "native.cgroupdriver=cgroupfs",
        }
        self.run.mkdir(exist_ok=True)
        with (self.folder / "log").open("ab") as log:
            self._program = self.machine.spawn(
                ["dockerd", "--bridge=none", "--iptables=false", "--shutdown-timeout=1"]
                + [f"--{name}={value}" for name, value in options.items()],
                log,
            )
        deadline = time.monotonic() + 60
        while not self._succeeds("version"):
            said = (self.folder / "log").read_text()[-2000:]
            assert self._program.poll() is None, said
            assert time.monotonic() < deadline, said
            time.sleep(0.2)

    @property
    def ended(self) -> bool:
        """Whether the Engine has been stopped or killed, or was never started."""
        return self._program is None or self._program.poll() is not None

    def _succeeds(self, *command: str) -> bool:
        return not subprocess.run(["docker", "--host", self.socket, *command], capture_output=True).returncode

    def stop(self) -> None:
        self._signal(signal.SIGTERM)
        self._ended()

    def _load(self, image: str) -> None:
        """Copy an image of the shared Engine. The client waits as long as the disk needs."""
        with subprocess.Popen(["docker", "save", image], stdout=subprocess.PIPE) as saved:
            subprocess.run(
                ["docker", "--host", self.socket, "load"], stdin=saved.stdout, check=True, capture_output=True
            )
        assert saved.returncode == 0

    def kill(self) -> None:
        """Kill the Engine. Its containers run on until the next start finds them."""
        self._signal(signal.SIGKILL)
        self._ended()

    def hang(self) -> None:
        """Suspend the Engine: it accepts connections and does not answer."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """End `hang`. Harmless if the Engine does not hang."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        assert self._program
        self._program.send_signal(number)

    def _ended(self) -> None:
        assert self._program
        self._program.wait(60)

    def remove(self) -> None:
        """Remove the Engine with everything that a killed one has left."""
        self.go_on()
        self.stop()
        self.machine.switch_off()
        shutil.rmtree(self.folder)

    def supervisors(self) -> list[int]:
        """Return host process ids of the supervisors in its containers, found without the Engine.

        The parent of each is a shim whose command line names this Engine's containerd.
        """
        lines = dict(command_lines())
        found = []
        for pid, line in lines.items():
            if b"/usr/lib/code-agent/libs/sandbox/guest/start.py" in line:
                with suppress(OSError):  # ended meanwhile
                    parent = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[1]
                    if str(self.folder).encode() in lines.get(int(parent), b""):
                        found.append(pid)
        return found


def command_lines() -> Iterator[tuple[int, bytes]]:
    """Yield process id and command line of every process."""
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # ended meanwhile
            yield int(entry.name), (entry / "cmdline").read_bytes()


@contextmanager
def own_engine(image: str) -> Iterator[OwnEngine]:
    """Run a separate Engine that has this image."""
    # Not in pytest's folder, because the path of a socket must be short.
    folder = Path(tempfile.mkdtemp(prefix="engine-"))
    engine = OwnEngine(folder, Machine("engine"), image)
    engine.machine.switch_on()
    try:
        engine.start()
        yield engine
    finally:
        engine.remove()
