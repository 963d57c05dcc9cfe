"""Starts `langgraph dev` in a folder of its own; a test can kill it and start it again."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import yaml

from agent.settings import ROOT, Settings

_START_SECONDS = 120
"""A start takes 5 s of processor time, which other tests share."""


def configuration() -> dict[str, Any]:
    """Return langgraph.json with absolute paths, for a server that is started in another folder."""

    def absolute(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: absolute(item) for key, item in value.items()}
        return str(ROOT / value) if isinstance(value, str) and value.startswith("./") else value

    config: dict[str, Any] = absolute(json.loads((ROOT / "langgraph.json").read_text()))
    config["dependencies"] = [str(ROOT / path) for path in config["dependencies"]]
    return config


def free_port() -> int:
    """Return a free port below 32768: the kernel gives only higher ports to programs that ask for any port.

    A server binds its port seconds later, and again after a restart.
    """
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with suppress(OSError), socket.socket() as taken:
            taken.bind(("127.0.0.1", port))
            return port


class Served:
    """A server. `folder` is its working directory, `workspace` the agent's workspace."""

    def __init__(self, folder: Path, script: str, **settings: str) -> None:
        self.folder = folder
        self.workspace = folder / "workspace"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None
        self.reloads = False
        """Whether the server restarts when a .py file below the folder changes."""
        self.workers = "10"
        """Runs that LangGraph's routes carry out at a time."""
        (folder / "langgraph.json").write_text(json.dumps(configuration()))
        (folder / "script.yaml").write_text(script)
        image = {name: os.environ[name] for name in ("SANDBOX_IMAGE",) if name in os.environ}
        settings = {"MODEL": "scripted:script.yaml", "WORKSPACE_DIR": "workspace", **image, **settings}
        (folder / ".env").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def serve_graph(self, name: str, source: str) -> None:
        """Let the name of a graph mean the `graph` of a Python source. Call this before the start."""
        (self.folder / f"{name}.py").write_text(source)
        place = self.folder / "langgraph.json"
        config = json.loads(place.read_text())
        config["graphs"][name] = f"{self.folder / name}.py:graph"
        place.write_text(json.dumps(config))

    @property
    def environment(self) -> dict[str, str]:
        names = {name.upper() for name in Settings.model_fields}
        plain = {name: value for name, value in os.environ.items() if name not in names}
        return plain | {
            "LANGGRAPH_CLI_NO_ANALYTICS": "1",  # see the Makefile
            "LANGGRAPH_NO_VERSION_CHECK": "true",
            "PYTHONUNBUFFERED": "1",
        }

    @property
    def command(self) -> list[str]:
        return [
            str(Path(sys.executable).with_name("langgraph")), "dev", "--no-browser",
            *([] if self.reloads else ["--no-reload"]),
            "--n-jobs-per-worker", self.workers, "--host", "127.0.0.1", "--port", str(self.port),
        ]  # fmt: skip

    def client(self, token: str | None = None, **headers: str) -> httpx.Client:
        """Return a client that sends a token and more headers; underscores stand for hyphens."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            given["Authorization"] = f"Bearer {token}"
        return httpx.Client(base_url=self.url, headers=given, timeout=60)

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command, cwd=self.folder, env=self.environment, stdout=log, stderr=log
            )
        deadline = time.monotonic() + _START_SECONDS
        # One client: each further one would read the certificates again, which takes 40 ms of processor time.
        with httpx.Client(timeout=5) as client:
            while True:
                try:
                    if client.get(f"{self.url}/ok").is_success:
                        return
                except httpx.TransportError:
                    time.sleep(0.05)
                if time.monotonic() > deadline or self.process.poll() is not None:
                    status = self.process.poll()
                    raise AssertionError(f"the server did not start (exit status {status}):\n{self.log()}")

    def kill(self) -> None:
        """End it with SIGKILL."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def end(self) -> None:
        """End it with SIGTERM and wait for its exit."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(60)
            self.process = None

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")


def joined_script(scripts: Iterable[str]) -> str:
    """Join scripts of several modules. No `when` may be part of another, or the wrong one would be played."""
    conversations = [c for script in scripts for c in yaml.safe_load(script)["conversations"]]
    said = [conversation["when"] for conversation in conversations]
    assert [(a, b) for i, a in enumerate(said) for b in said[i + 1 :] if a in b or b in a] == []
    return yaml.safe_dump({"conversations": conversations})


@contextmanager
def served(folder: Path, script: str, **settings: str) -> Iterator[Served]:
    """Start a server that plays `script` and end it with the block. It must never block its event loop."""
    server = Served(folder, script, **settings)
    try:
        server.start()
        yield server
    finally:
        server.end()
    assert "BlockingError" not in server.log(), server.log()
