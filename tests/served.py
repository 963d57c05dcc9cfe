"""`langgraph dev` in a folder of its own, which may be killed and started again."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from agent.config import ROOT, Settings

__all__ = ["Served", "configuration", "free_port", "served"]


def configuration() -> dict[str, Any]:
    """langgraph.json, for a server that is started elsewhere."""

    def absolute(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: absolute(item) for key, item in value.items()}
        return str(ROOT / value) if isinstance(value, str) and value.startswith("./") else value

    config: dict[str, Any] = absolute(json.loads((ROOT / "langgraph.json").read_text()))
    config["dependencies"] = [str(ROOT / path) for path in config["dependencies"]]
    return config


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


class Served:
    """A server; `folder` is its working directory, `folder/workspace` the agent's."""

    def __init__(self, folder: Path, script: str, **settings: str) -> None:
        self.folder = folder
        self.workspace = folder / "workspace"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None
        (folder / "langgraph.json").write_text(json.dumps(configuration()))
        (folder / "script.yaml").write_text(script)
        settings = {"MODEL": "scripted:script.yaml", "WORKSPACE_DIR": "workspace", **settings}
        (folder / ".env").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    @property
    def environment(self) -> dict[str, str]:
        names = {name.upper() for name in Settings.model_fields}
        plain = {name: value for name, value in os.environ.items() if name not in names}
        return plain | {"LANGGRAPH_NO_VERSION_CHECK": "true", "PYTHONUNBUFFERED": "1"}

    @property
    def command(self) -> list[str]:
        return [
            str(Path(sys.executable).with_name("langgraph")), "dev", "--no-browser", "--no-reload",
            "--n-jobs-per-worker", "10", "--host", "127.0.0.1", "--port", str(self.port),
        ]  # fmt: skip

    def start(self, *, wait: bool = True) -> None:
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command, cwd=self.folder, env=self.environment, stdout=log, stderr=log
            )
        deadline = time.monotonic() + 60
        while wait:
            try:
                if httpx.get(f"{self.url}/ok", timeout=5).is_success:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise AssertionError(f"the server did not start:\n{self.log()}")

    def kill(self) -> None:
        """As the kernel does it, or a person who has lost patience."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def end(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(60)
            self.process = None

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")


@contextmanager
def served(folder: Path, script: str, **settings: str) -> Iterator[Served]:
    """Start a server that plays `script`, and end it."""
    server = Served(folder, script, **settings)
    server.start()
    try:
        yield server
    finally:
        server.end()
