"""`langgraph dev` as a person starts it, in a folder of its own, with settings of its own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from agent.config import ROOT, Settings


@dataclass(frozen=True)
class Server:
    """One that runs: its files, and where it is reached."""

    folder: Path
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def client(self, token: str | None = None, **headers: str) -> httpx.Client:
        """Asks with a token, and with more headers; underscores stand for hyphens."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            given["Authorization"] = f"Bearer {token}"
        return httpx.Client(base_url=self.url, headers=given, timeout=60)


@contextmanager
def langgraph_dev(folder: Path, script: str, **settings: str) -> Iterator[Server]:
    """Start one that plays `script`; it is ended with the block, and has blocked its event loop nowhere."""
    config = json.loads((ROOT / "langgraph.json").read_text())
    config["dependencies"] = [str(ROOT / path) for path in config["dependencies"]]
    config["graphs"] = {name: str(ROOT / path) for name, path in config["graphs"].items()}
    config["http"]["app"] = str(ROOT / config["http"]["app"])
    (folder / "langgraph.json").write_text(json.dumps(config))
    (folder / "script.yaml").write_text(script)
    lines = {"MODEL": "scripted:script.yaml", "WORKSPACE_DIR": "workspace"} | settings
    (folder / ".env").write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    known = {name.upper() for name in Settings.model_fields}
    environment = {name: value for name, value in os.environ.items() if name not in known}
    environment |= {"LANGGRAPH_NO_VERSION_CHECK": "true", "PYTHONUNBUFFERED": "1"}
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = int(taken.getsockname()[1])
    command = [
        str(Path(sys.executable).with_name("langgraph")), "dev", "--no-browser", "--no-reload",
        "--n-jobs-per-worker", "10", "--host", "127.0.0.1", "--port", str(port),
    ]  # fmt: skip
    server = Server(folder, port)
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
        try:
            _wait(server, process)
            yield server
        finally:
            process.terminate()
            process.wait(30)
    assert "BlockingError" not in server.log


def _wait(server: Server, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(f"{server.url}/ok").is_success:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    pytest.fail(f"the server did not start:\n{server.log}")
