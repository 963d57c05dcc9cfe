"""A separate Docker Engine for tests that stop, kill or suspend the Engine."""

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


class OwnEngine:
    """dockerd in a network namespace of its own. In the host's it would remove the shared Engine's bridge."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = f"unix://{folder}/docker.sock"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the Engine and wait until it answers. After a kill the first attempt may fail."""
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
        """Copy an image of the shared Engine into this one. The client waits as long as the disk needs."""
        with subprocess.Popen(["docker", "save", image], stdout=subprocess.PIPE) as saved:
            subprocess.run(
                ["docker", "--host", self.socket, "load"], stdin=saved.stdout, check=True, capture_output=True
            )
        assert saved.returncode == 0

    def kill(self) -> None:
        """Kill the Engine. Its containers run on until the next start finds them."""
        assert self._process
        self._process.kill()
        self._process.wait(10)

    def hang(self) -> None:
        """Suspend the Engine: it accepts connections and does not answer."""
        assert self._process
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """End `hang`. Harmless if the Engine does not hang."""
        assert self._process
        self._process.send_signal(signal.SIGCONT)

    def remove(self) -> None:
        """Remove the Engine with everything that a killed one has left."""
        self.go_on()
        self.stop()
        for pid, line in command_lines():
            if b"containerd" in line and str(self.folder).encode() in line:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for place in reversed([mount for mount in mounts if mount.startswith(f"{self.folder}/")]):
            subprocess.run(["umount", "--lazy", place], check=True)
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
    assert os.geteuid() == 0, "only root can start an Engine; the shared one must not be restarted"
    # Not in pytest's folder, because the path of a socket must be short.
    folder = Path(tempfile.mkdtemp(prefix="engine-"))
    engine = OwnEngine(folder)
    engine.start()
    try:
        engine.load(image)
        yield engine
    finally:
        engine.remove()
