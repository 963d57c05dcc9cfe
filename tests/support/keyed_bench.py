"""Sandboxes of each kind with a command log, and a separate program that uses such a sandbox."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from libs.backends.docker import DockerExecutionBackend
from libs.sandbox.docker.container import DockerSandbox
from libs.sandbox.host.channel_sandbox import ChannelSandbox
from libs.sandbox.host.local_sandbox import LocalSandbox
from libs.sandbox.host.records.command_log import CommandRecords
from tests.support.programs import python
from tests.support.sandboxes import IMAGE, RUNTIME

__all__ = ["Bench", "owner"]


@dataclass
class Bench:
    """A sandbox of one kind with a command log. `again()` makes another one on the same workspace."""

    kind: str
    folder: Path
    open: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self.sandbox = self.again()

    def again(self, **more: Any) -> ChannelSandbox:
        records = CommandRecords(self.folder / "commands.sqlite")
        self.open.callback(records.close)
        if self.kind == "pool":
            backend = DockerExecutionBackend(
                self.folder / "w",
                image=IMAGE,
                runtime=RUNTIME,
                name="keyed",
                scope="thread",
                warm=0,
                records=records,
                **more,
            )
            return self.open.enter_context(backend).sandbox
        options = {"records": records, "thread": lambda: "t", **more}
        if self.kind == "docker":
            return self.open.enter_context(
                DockerSandbox(self.folder / "w", image=IMAGE, runtime=RUNTIME, name="keyed", **options)
            )
        return self.open.enter_context(LocalSandbox(self.folder / "w", **options))

    @property
    def path(self) -> Path:
        """Path of the workspace on the host."""
        assert isinstance(self.sandbox, LocalSandbox | DockerSandbox)
        return self.sandbox.root

    def inside(self, name: str) -> str:
        return str(self.path / name) if self.kind == "local" else f"/workspace/{name}"

    def end(self) -> None:
        """Kill the sandbox."""
        if isinstance(self.sandbox, LocalSandbox):
            assert self.sandbox.process is not None
            self.sandbox.process.kill()
        else:
            assert isinstance(self.sandbox, DockerSandbox)
            subprocess.run(
                ["docker", "kill", str(self.sandbox.container_name)], check=True, capture_output=True
            )

    def ran(self, name: str = "log") -> int:
        file = self.path / name
        return len(file.read_text().splitlines()) if file.exists() else 0


def owner(bench: Bench) -> subprocess.Popen[str]:
    """Start a program that has run one keyed command, and prints `up` when the next one runs."""
    module, made = {
        "local": ("sandbox.host.local_sandbox", "LocalSandbox(root, records=records, thread=lambda: 't')"),
        "docker": (
            "sandbox.docker.container",
            f"DockerSandbox(root, image={IMAGE!r}, runtime={RUNTIME!r}, name='keyed', records=records, "
            "thread=lambda: 't')",
        ),
        "pool": (
            "backends.docker",
            f"DockerExecutionBackend(root, image={IMAGE!r}, runtime={RUNTIME!r}, name='keyed', "
            "scope='thread', warm=0, records=records).sandbox",
        ),
    }[bench.kind]
    return python(f"""
        from pathlib import Path
        from libs.{module} import {made.partition("(")[0]}
        from libs.sandbox.host.records.command_log import CommandRecords

        root = Path({str(bench.folder / "w")!r})
        records = CommandRecords(Path({str(bench.folder / "commands.sqlite")!r}))
        sandbox = {made}
        sandbox.run("echo x >> ended; echo ended", key="m/1")
        sandbox.run_python("x = 1; open('block', 'a').write('x\\\\n'); x", session="s", key="m/2")
        sandbox.file("edit", path={bench.inside("file")!r}, old="a", new="ab", replace_all=False, key="m/3")
        print("ready", flush=True)
        show = lambda data: print(data.decode(), end="", flush=True)
        sandbox.run("echo x >> running; echo up; sleep 60", key="m/4", on_output=show)
    """)
