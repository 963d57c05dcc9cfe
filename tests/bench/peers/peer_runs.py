"""Other sandboxes to compare with. Each runs in its own virtual environment as a child process."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Self

from tests.bench.peers.peer_environments import PeerFailed, python_with

__all__ = ["Peers"]

REQUIREMENTS: dict[str, list[str]] = {
    "exec_run": [],  # needs only docker-py, a dependency of this project
    "deepagents-docker-sandbox": ["deepagents-docker-sandbox==0.0.1"],
    "swe-rex": ["swe-rex==1.4.0", "aiohttp>=3,<4"],  # swe-rex imports aiohttp without requiring it
    "llm-sandbox": ["llm-sandbox[docker]==0.3.46"],
}
_PROGRAM = Path(__file__).with_name("peer_program.py")
_SECONDS = 120.0
"""Most seconds for one answer."""


class _Peer:
    def __init__(self, name: str, image: str) -> None:
        self._process = subprocess.Popen(
            [_interpreter(name), str(_PROGRAM), name, image],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, do: str, *arguments: object) -> float | None:
        """Return the seconds of a call in the peer, or None if it has no such call. Raises PeerFailed."""
        assert self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write(json.dumps({"do": do, "arguments": arguments}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise PeerFailed("its process has ended") from None
        if not select.select([self._process.stdout], [], [], _SECONDS)[0]:
            self._process.kill()
            raise PeerFailed(f"{do} took over {_SECONDS:g} s")
        line = self._process.stdout.readline()
        if not line:
            raise PeerFailed("its process has ended")
        answer = json.loads(line)
        if "error" in answer:
            raise PeerFailed(answer["error"])
        seconds: float | None = answer["seconds"]
        return seconds

    def seconds(self, do: str, *arguments: object) -> float:
        """As `ask`, for a call that the peer has."""
        taken = self.ask(do, *arguments)
        assert taken is not None
        return taken

    def close(self) -> None:
        """Wait until the peer has ended its container."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        try:
            self._process.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


class Peers:
    """All peers that can be installed. A context manager that ends their containers.

    Args:
        image: Image of their containers. Our own image is used because it is always available.
        names: Names of the peers; by default all.
    """

    def __init__(self, image: str, names: list[str] | None = None) -> None:
        self.left_out: dict[str, str] = {}
        """Reason for each peer, or peer and call, without a figure."""
        self._there: dict[str, _Peer] = {}
        for name in REQUIREMENTS if names is None else names:
            try:
                self._there[name] = _Peer(name, image)
            except PeerFailed as error:
                self.left_out[name] = str(error)

    def open(self) -> None:
        """Start the container of each peer. Peers that fail are left out."""
        self._ask_all("open")

    def shut(self) -> None:
        """Stop all containers of peers."""
        self._ask_all("close")

    def _ask_all(self, do: str) -> None:
        for name, peer in list(self._there.items()):
            try:
                peer.ask(do)
            except PeerFailed as error:
                self.left_out[name] = str(error)
                self._there.pop(name).close()

    def reporting(self, do: str, *arguments: object) -> dict[str, Callable[[], float]]:
        """Return for each peer with this call a function that repeats the call and returns its seconds."""
        found: dict[str, Callable[[], float]] = {}
        for name, peer in self._there.items():
            try:
                if peer.ask(do, *arguments) is not None:
                    found[name] = partial(peer.seconds, do, *arguments)
            except PeerFailed as error:
                self.left_out[f"{name}, {do}"] = str(error)
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for peer in self._there.values():
            peer.close()


def _interpreter(name: str) -> str:
    requirements = REQUIREMENTS[name]
    return python_with(name, requirements) if requirements else sys.executable
