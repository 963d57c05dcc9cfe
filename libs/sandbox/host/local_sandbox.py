"""Runs the sandbox as a plain process, for tests without Docker. It isolates nothing."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from libs.redaction import Redact
from libs.sandbox.errors import SandboxDied, SandboxError
from libs.sandbox.host.channel import Channel, Egress, way_out
from libs.sandbox.host.channel_sandbox import ChannelSandbox
from libs.sandbox.host.records import CommandRecords
from libs.sandbox.host.thread_notes import ThreadNotes, notes_of
from libs.sandbox.image_contents import write_guest
from libs.sandbox.limits import SandboxLimits

__all__ = ["LocalSandbox"]


class _SocketTransport:
    """A plain socket to a child process."""

    def __init__(self, link: socket.socket, process: subprocess.Popen[bytes]) -> None:
        self._link = link
        self._process = process

    def receive(self) -> bytes:
        return self._link.recv(262_144)

    def send_now(self, data: bytes) -> int:
        try:
            return self._link.sendmsg([data], [], socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0

    def send(self, data: bytes) -> None:
        self._link.sendall(data)

    def close(self) -> None:
        try:
            self._link.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # the process has closed its end already
        finally:
            self._process.wait(10)

    def epitaph(self) -> str:
        code = self._process.poll()
        return "" if code is None else f"its process exited with {code}"


class LocalSandbox(ChannelSandbox):
    """Runs commands as this user on this machine, in `root`. The Docker backend refuses this class."""

    isolated = False

    def __init__(
        self,
        root: Path,
        *,
        limits: SandboxLimits = SandboxLimits(),
        name: str = "local",
        idle_seconds: float = 0,
        redact: Redact | None = None,
        egress: Egress | None = None,
        records: CommandRecords | None = None,
        thread: Callable[[], str] = str,
    ) -> None:
        super().__init__(
            name, limits, idle_seconds=idle_seconds, redact=redact, records=records, thread=thread
        )
        self._egress = egress
        self.root = root.resolve()
        self.notes = ThreadNotes(notes_of(self.root))
        self.process: subprocess.Popen[bytes] | None = None

    def _connect(self) -> Channel:
        self.root.mkdir(parents=True, exist_ok=True)
        self.protected = [str(self.root)]
        environment = {
            "PATH": os.defpath,
            "HOME": str(self.root / ".home"),
            "MPLCONFIGDIR": str(self.root / ".home"),
            "LANG": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",  # see `container_config.py`
        }
        door = self._egress() if self._egress else None
        if door:
            door.belongs_to(self.name, "")
            environment |= way_out(door, _free_port())
        # A worker that ends a little later may still write the cache of a compiled module into the folder.
        folder = tempfile.TemporaryDirectory(prefix="sandbox-", ignore_cleanup_errors=True)
        program = write_guest(Path(folder.name))
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", program],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                cwd=self.root,
                env=environment,
                start_new_session=True,
            )

        def release() -> None:
            ours.close()
            folder.cleanup()

        return Channel(_SocketTransport(ours, self.process), on_close=release, door=door)

    def _not_ready(self, died: SandboxDied | None) -> SandboxError:
        return SandboxError(
            f"The process of this sandbox did not become ready. {died or ''}".rstrip(),
            hint="Wait until this machine is less busy.",
        )


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
